"""Answers to come, heard by a callback at the moment they are there."""

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from assay.core.errors import AssayError
from assay.core.requests import ToRun
from assay.wire import exchange as wire

log = logging.getLogger("assay.worker")


class Beaten(msgspec.Struct, frozen=True):
    """The answer to a sign of life."""

    cancel_requested: bool


BEATEN: Final = Beaten(False), Beaten(True)


class Reply:
    """The answer to come of a report: it looks like a future to whoever adds a callback, and needs no loop."""

    __slots__ = ("_callback", "_error", "_there", "_value")

    def __init__(self, error: AssayError | None = None) -> None:
        self._there = error is not None
        self._error = error
        self._value: Any = None
        self._callback: Callable[[Any], object] | None = None

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call back when the answer is there; one caller only."""
        self._callback = callback
        if self._there:
            callback(self)

    def cancelled(self) -> bool:
        """Never: a report is sent until it is answered."""
        return False

    def exception(self) -> AssayError | None:
        """Why it was refused, if it was."""
        return self._error

    def result(self) -> Any:
        """The answer; a refusal is raised."""
        if self._error is not None:
            raise self._error
        return self._value

    def settle(self, value: Any, error: AssayError | None = None) -> None:
        """The answer is there; a callback that fails must not keep others from theirs."""
        self._value, self._error, self._there = value, error, True
        if self._callback is None:
            return
        try:
            self._callback(self)
        except Exception:
            log.exception("whoever heard an answer failed over it")


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A report that has no answer yet."""

    report: wire.Report
    request: ToRun | None
    reply: Reply
