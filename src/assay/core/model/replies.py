"""The replies of decisions to their callers."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

import msgspec

from assay.core.model.errors import AssayError
from assay.core.model.ids import RunKey
from assay.core.model.run import Activity
from assay.core.schedules.model import Schedule

ReplyCallback: TypeAlias = Callable[[Any, AssayError | None], object]
"""Called once with the reply to a request after its commit, or with the error.

Most requests come from workers, which use callbacks: cheaper than a future and an iteration of the loop.
"""


class SettableFuture(Protocol):
    """The methods of a future that core needs; core does not import asyncio."""

    def done(self) -> bool:
        """Return whether the future has a result or was cancelled."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Set the result."""
        ...

    def set_exception(self, exception: AssayError, /) -> None:
        """Set an error as the outcome."""
        ...


def future_callback(future: SettableFuture) -> ReplyCallback:
    """Return a callback that sets the outcome of a future, unless the future is done."""
    return partial(_settle, future)


def _settle(future: SettableFuture, reply: Any, error: AssayError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(reply)
    else:
        future.set_exception(error)


class Started(msgspec.Struct, frozen=True):
    """The reply to a start; `started` is False if an existing run is used.

    `repeated` is True if an earlier start had the same request id; the reply is the same as the first. The caller has
    to compare the options of both starts: a decision does not have the input of the run.
    """

    key: RunKey
    status: str
    started: bool
    repeated: bool = False


class SchedulePut(msgspec.Struct, frozen=True):
    """The schedule after a put, and whether the put created the schedule."""

    schedule: Schedule
    created: bool


class Reopened(msgspec.Struct, frozen=True):
    """The reply to a retry: the new run, the retried activity, if any, and counts of dropped events."""

    key: RunKey
    activity: Activity | None
    invalidated: int
    """The number of activities scheduled after the cut."""
    dropped: int
    """The number of events after the cut that are not in the copy, with the closing event."""


class Advanced(msgspec.Struct, frozen=True):
    """The reply to a turn: whether its commands were accepted, and the state of the run and the lease.

    `recorded` has a flag per outcome: whether the outcome became an event, also if the commands were refused.
    """

    accepted: bool
    code: str | None = None
    last_seq: int = 0
    seen_seq: int = 0
    epoch: int = 0
    leased: bool = False
    closed: bool = False
    recorded: tuple[bool, ...] = ()
