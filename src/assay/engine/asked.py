"""A request on its way through the write path, and the ways in which its answer is heard."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from assay.core.errors import AssayError
from assay.core.grants import Seat
from assay.core.requests import Request
from assay.engine.idempotency import IdempotencyKey

log = logging.getLogger("assay.engine")


class Answer:
    """The answer to come of a request, heard by a callback at the moment it is there.

    It looks like a future to whoever adds a callback, and costs neither a turn of the loop nor a handle: the way of
    workers, whose requests are the bulk.
    """

    __slots__ = ("_callback", "_error", "_reply", "_there")

    def __init__(self) -> None:
        self._there = False
        self._reply: object = None
        self._error: AssayError | None = None
        self._callback: Callable[[Any], object] | None = None

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call back when the answer is there; one caller only."""
        self._callback = callback
        if self._there:
            callback(self)

    def done(self) -> bool:
        """Is it there?"""
        return self._there

    def cancelled(self) -> bool:
        """Never: what was asked is answered."""
        return False

    def result(self) -> Any:
        """The reply, or the refusal as an exception."""
        if self._error is not None:
            raise self._error
        return self._reply

    def exception(self) -> AssayError | None:
        """The refusal, if it was one."""
        return self._error

    def set_result(self, reply: object) -> None:
        """Here it is."""
        self._reply = reply
        self._tell()

    def set_exception(self, error: AssayError) -> None:
        """It is a refusal."""
        self._error = error
        self._tell()

    def _tell(self) -> None:
        self._there = True
        if self._callback is None:
            return
        try:
            self._callback(self)
        except Exception:
            log.exception("whoever heard an answer failed over it")


class Asked:
    """A request on its way, with the one who waits for its answer, or the worker that a lease is for.

    `again` says that it was decided before on knowledge that proved old: now the run is read anew.
    """

    __slots__ = ("again", "future", "key", "request", "seat", "special")

    def __init__(
        self,
        request: Request,
        future: "asyncio.Future[object] | Answer | None",
        seat: Seat | None = None,
        key: IdempotencyKey | None = None,
    ) -> None:
        self.request = request
        self.future = future
        self.seat = seat
        self.key = key
        self.again = False
        self.special = False
        """Needs more than its run to be decided: set when the batch is prepared."""

    def answer(self, reply: object) -> None:
        """Give the caller its reply, if it still waits."""
        if self.future is not None and not self.future.done():
            self.future.set_result(reply)

    def fail(self, error: AssayError) -> None:
        """Give the caller its refusal, if it still waits."""
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)
