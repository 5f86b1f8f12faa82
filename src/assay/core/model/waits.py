"""Waits that the row of a run keeps beside its history: awaited signals, a cancel request, and reports of the code."""

import msgspec

from assay.core.model.ids import Time

MESSAGE, SEND, EVENTS, NOTHING = "message", "send", "events", "nothing"
REPORTED_KINDS = (MESSAGE, SEND, EVENTS, NOTHING)
"""The kinds of waits that a worker reports with a turn."""


class AwaitedSignal(msgspec.Struct, frozen=True, gc=False):
    """A signal that the code waits for: its event, and the timer that limits the wait."""

    seq: int
    name: str
    since: Time
    timer_seq: int | None = None


class CancelRequest(msgspec.Struct, frozen=True, gc=False):
    """The first cancel request of a run."""

    since: Time
    reason: str | None = None
    by: str | None = None


class ReportedWait(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A wait that the last accepted turn reported and no event records; `since` is the time of the report."""

    kind: str
    since: Time
    topics: tuple[str, ...] = ()
    to: str | None = None


class FailedWork(msgspec.Struct, frozen=True, gc=False):
    """The last activity or step of a run that failed for good, to tell where the run fails if it does."""

    name: str
    error: str


class Waits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The waits of an open run that are in no other table."""

    signals: tuple[AwaitedSignal, ...] = ()
    """Oldest first."""
    cancel: CancelRequest | None = None
    reported: tuple[ReportedWait, ...] = ()
    failed: FailedWork | None = None


NO_WAITS = Waits()
