"""Requests in the write path, each with the callback for its outcome."""

import logging

from assay.core.model.errors import AssayError
from assay.core.model.grants import ConnectedWorker
from assay.core.model.replies import ReplyCallback
from assay.core.model.requests import Request
from assay.engine.commit.audit_note import AuditNote
from assay.engine.commit.idempotency import IdempotencyKey

log = logging.getLogger("assay.engine")


class PendingRequest:
    """A request without an outcome, with its callback, or with the worker of a lease request."""

    __slots__ = ("again", "audit", "callback", "caller", "key", "needs_prefetch", "request", "worker")

    def __init__(
        self,
        request: Request,
        callback: ReplyCallback | None = None,
        worker: ConnectedWorker | None = None,
        key: IdempotencyKey | None = None,
        caller: str | None = None,
        audit: AuditNote | None = None,
    ) -> None:
        self.request = request
        self.callback = callback
        self.worker = worker
        self.key = key
        self.caller = caller
        """The namespace of a caller over the network; None for requests of workers, timers and this process."""
        self.audit = audit
        """The audit of a caller's change; None without an audit, and for workers, timers and this process."""
        self.again = False
        """True after a decision on a stale run: the run is loaded anew, and the next outcome is final."""
        self.needs_prefetch = False
        """True if the decision needs rows beside the run (`prefetch`); set when the batch is loaded."""

    def answer(self, reply: object, error: AssayError | None = None) -> None:
        """Call the callback with the outcome, once. Its errors are logged: other requests of the batch need replies."""
        callback, self.callback = self.callback, None
        if callback is None:
            return
        try:
            callback(reply, error)
        except Exception:
            log.exception("a callback raised an error over the reply to %s", type(self.request).__name__)

    def fail(self, error: AssayError) -> None:
        """Call the callback with a refusal, or with the reason why the outcome is unknown."""
        self.answer(None, error)
