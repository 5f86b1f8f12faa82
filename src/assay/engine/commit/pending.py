"""A request on its way through the write path, and the one who hears what became of it."""

import logging

from assay.core.errors import AssayError
from assay.core.grants import Seat
from assay.core.replies import Told
from assay.core.requests import Request
from assay.engine.commit.idempotency import IdempotencyKey

log = logging.getLogger("assay.engine")


class PendingRequest:
    """A request on its way, with the one who is told its outcome, or the worker that a lease is for.

    `again` says that it was decided before on knowledge that proved old: now the run is read anew.
    """

    __slots__ = ("again", "key", "request", "seat", "special", "told")

    def __init__(
        self, request: Request, told: Told | None = None, seat: Seat | None = None, key: IdempotencyKey | None = None
    ) -> None:
        self.request = request
        self.told = told
        self.seat = seat
        self.key = key
        self.again = False
        self.special = False
        """Needs more than its run to be decided: set when the batch is prepared."""

    def answer(self, reply: object, error: AssayError | None = None) -> None:
        """Tell the outcome, once; whoever fails over it must not keep others from theirs."""
        told, self.told = self.told, None
        if told is None:
            return
        try:
            told(reply, error)
        except Exception:
            log.exception("whoever heard an answer failed over it")

    def fail(self, error: AssayError) -> None:
        """Tell that it was refused, or that nobody knows."""
        self.answer(None, error)
