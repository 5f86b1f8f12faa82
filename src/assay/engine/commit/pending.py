"""A request on its way through the write path, with the callback for its outcome."""

import logging

from assay.core.model.errors import AssayError
from assay.core.model.grants import ConnectedWorker
from assay.core.model.replies import ReplyCallback
from assay.core.model.requests import Request
from assay.engine.commit.idempotency import IdempotencyKey

log = logging.getLogger("assay.engine")


class PendingRequest:
    """A request that has no outcome yet, with the callback for it, or the worker that a lease is for."""

    __slots__ = ("again", "callback", "caller", "key", "needs_prefetch", "request", "worker")

    def __init__(
        self,
        request: Request,
        callback: ReplyCallback | None = None,
        worker: ConnectedWorker | None = None,
        key: IdempotencyKey | None = None,
        caller: str | None = None,
    ) -> None:
        self.request = request
        self.callback = callback
        self.worker = worker
        self.key = key
        self.caller = caller
        """The namespace of a caller over the network; None for requests of workers, timers and this process."""
        self.again = False
        """Was decided before, on a state that proved old: its run has been loaded since."""
        self.needs_prefetch = False
        """Needs more than its run to be decided (`prefetch`): set when the batch is loaded."""

    def answer(self, reply: object, error: AssayError | None = None) -> None:
        """Call back with the outcome, once; a callback that fails must not keep other requests from theirs."""
        callback, self.callback = self.callback, None
        if callback is None:
            return
        try:
            callback(reply, error)
        except Exception:
            log.exception("whoever heard an answer failed over it")

    def fail(self, error: AssayError) -> None:
        """Call back with the reason why the request was refused, or why its outcome is unknown."""
        self.answer(None, error)
