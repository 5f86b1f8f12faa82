"""What decisions answer to their callers."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

import msgspec

from assay.core.model.errors import AssayError
from assay.core.model.ids import RunKey
from assay.core.model.run import Activity
from assay.core.schedules.model import Schedule

ReplyCallback: TypeAlias = Callable[[Any, AssayError | None], object]
"""Called once when it is durable what became of a request: with its reply, or with why it was refused.

The way of workers, whose requests are the bulk: it costs neither a future nor a turn of the loop.
"""


class SettableFuture(Protocol):
    """A future, as far as it is needed here."""

    def done(self) -> bool:
        """Is it settled, or does nobody wait for it any more?"""
        ...

    def set_result(self, result: Any, /) -> None:
        """Settle it."""
        ...

    def set_exception(self, exception: AssayError, /) -> None:
        """Settle it with an error."""
        ...


def future_callback(future: SettableFuture) -> ReplyCallback:
    """Have a future told, if it is still wanted."""
    return partial(_settle, future)


def _settle(future: SettableFuture, reply: Any, error: AssayError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(reply)
    else:
        future.set_exception(error)


class Started(msgspec.Struct, frozen=True):
    """A start's answer; `started` is False when an existing run was used (C22).

    `repeated`: its request id was heard before, and this is what was answered then. Whether it asks for the same as
    then is for the caller to find out: what a run was started with is not at hand in a decision.
    """

    key: RunKey
    status: str
    started: bool
    repeated: bool = False


class SchedulePut(msgspec.Struct, frozen=True):
    """The schedule as it is after a put, and whether the put created it."""

    schedule: Schedule
    created: bool


class Reopened(msgspec.Struct, frozen=True):
    """A retry's answer: the new run, the activity that is tried again, if any, and what the copy leaves out."""

    key: RunKey
    activity: Activity | None
    invalidated: int
    """Activities that were scheduled after the cut."""
    dropped: int
    """Events after the cut that are not in the copy, the closing one included."""


class Advanced(msgspec.Struct, frozen=True):
    """A turn's answer: were its commands accepted, and what the worker must know to go on.

    `recorded` tells for each outcome whether it became an event, even when the commands were refused (R8).
    """

    accepted: bool
    code: str | None = None
    last_seq: int = 0
    seen_seq: int = 0
    epoch: int = 0
    leased: bool = False
    closed: bool = False
    recorded: tuple[bool, ...] = ()
