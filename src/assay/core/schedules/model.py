"""Schedules: the workflow to start, the due times, and the policies for overlapping runs and missed fires."""

import hashlib
from enum import StrEnum
from functools import lru_cache

import msgspec

from assay.core.model.ids import SECOND, Namespace, RunId, Time
from assay.core.model.payload import NULL, Payload
from assay.core.schedules.timetable import Timetable, parse_timetable

RECHECK_INTERVAL: Time = 30 * SECOND
"""The interval at which a schedule with waiting fires is checked again: the engine that was to report the end of the
open run may have died."""


class Overlap(StrEnum):
    """The effect of a fire while the run of an earlier fire is open."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL_OLD = "cancel_old"
    TERMINATE_OLD = "terminate_old"
    ALLOW_ALL = "allow_all"


class Missed(StrEnum):
    """The due times from a time without an engine that fire later, within the window."""

    SKIP = "skip"
    LAST = "last"
    ALL = "all"


class Trigger(StrEnum):
    """The cause of a fire: a due time, a manual trigger, or a backfill of past due times."""

    TIME = "time"
    MANUAL = "manual"
    BACKFILL = "backfill"


class FireOutcome(StrEnum):
    """The outcome of a due time."""

    STARTED = "started"
    QUEUED = "queued"
    SKIPPED = "skipped"
    DROPPED = "dropped"
    MISSED = "missed"
    PAUSED = "paused"
    FAILED = "failed"


class Waiting(msgspec.Struct, frozen=True):
    """A fire that waits until the open run closes, with the workflow id of its own run."""

    due_at: Time
    workflow_id: str
    trigger: Trigger = Trigger.TIME


class Schedule(msgspec.Struct, frozen=True):
    """The state of a schedule. The next due time is computed from the last, never from now: each fires once (I11)."""

    namespace: Namespace
    name: str
    workflow_type: str
    cron_expr: str
    created_at: Time = 0
    timezone: str = "UTC"
    dst: str = "skip"
    input: Payload = NULL
    task_queue: str = "default"
    overlap_policy: Overlap = Overlap.SKIP
    missed: Missed = Missed.LAST
    window: Time = 3_600 * SECOND
    jitter: Time = 0
    end_at: Time | None = None
    remaining: int | None = None
    """The number of runs that the timetable may still start; triggers and backfills do not count."""
    search_attributes: Payload = NULL
    memo: Payload = NULL
    paused: bool = False
    pause_reason: str | None = None
    paused_by: str | None = None
    paused_at: Time | None = None
    next_run_at: Time | None = None
    last_run_at: Time | None = None
    last_workflow_id: str | None = None
    running: tuple[str, ...] = ()
    """The workflow ids of runs that were open at the last decision, oldest first."""
    waiting: tuple[Waiting, ...] = ()
    """Fires that wait until the open run closes, oldest first."""
    decided_until: Time = 0
    """The latest decided due time. Nothing fires again if the wall clock is set back before this time (I11)."""
    given_up: tuple[tuple[Time, Time], ...] = ()
    """Ranges of due times up to `decided_until` recorded as missed, both ends included, oldest first. These due times
    fire after all if the wall clock was set back and reaches them again."""
    updated_at: Time = 0
    version: int = 0

    @property
    def key(self) -> RunId:
        """See `schedule_key`."""
        return schedule_key(self.namespace, self.name)

    def timetable(self) -> Timetable:
        """Return the timetable of the schedule."""
        return _timetable(self.cron_expr, self.timezone, self.dst)

    def after(self, time: Time) -> Time | None:
        """Return the first due time after `time` that is still to fire; None if no due time is left."""
        if self.remaining == 0:
            return None
        due = self._due_after(time)
        if due is None or due > self.decided_until:
            return due
        for first, last in self.given_up:
            if last > time:
                due = self._due_after(max(time, first - 1))
                if due is not None and due <= last:
                    return due
        return self._due_after(self.decided_until)

    def was_missed(self, due: Time) -> bool:
        """Return whether a due time was recorded as missed."""
        return any(first <= due <= last for first, last in self.given_up)

    def _due_after(self, time: Time) -> Time | None:
        due = self.timetable().next(time, self.created_at)
        return None if due is None or (self.end_at is not None and due > self.end_at) else due

    def latest(self, due: Time, until: Time) -> Time:
        """Return the last due time up to `until`, by bisection: there may be millions from `due` on."""
        low, high = due, until
        while high - low >= SECOND:  # due times are at least a second apart
            middle = (low + high) // 2
            found = self.after(middle)
            if found is not None and found <= until:
                low = found
            else:
                high = middle
        return low

    def delay(self, due: Time) -> Time:
        """Return the jitter of a due time: the same delay on every engine."""
        if self.jitter <= 0:
            return 0
        seed = hashlib.blake2b(f"{self.namespace}/{self.name}/{due}".encode(), digest_size=8).digest()
        return int.from_bytes(seed) % self.jitter

    def wakes_at(self) -> Time | None:
        """Return the time of the next decision about the schedule."""
        if self.paused:
            return None
        fires = None if self.next_run_at is None else self.next_run_at + self.delay(self.next_run_at)
        if not self.waiting:
            return fires
        checks = self.updated_at + RECHECK_INTERVAL
        return checks if fires is None else min(fires, checks)

    def run_name(self, due: Time) -> str:
        """Return the workflow id of the run for a due time: equal on every engine, so that the run starts only once."""
        whole, fraction = divmod(due, SECOND)
        return f"{self.name}-{whole}.{fraction:06}" if fraction else f"{self.name}-{whole}"


class Fire(msgspec.Struct, frozen=True):
    """The record of a due time: its outcome, and the reason."""

    namespace: Namespace
    schedule: str
    due_at: Time
    fired_at: Time
    outcome: FireOutcome
    reason: str | None = None
    workflow_id: str | None = None
    run_id: RunId | None = None
    trigger: Trigger = Trigger.TIME
    until: Time | None = None
    """The last due time of a record for many due times from `due_at` on: an outage may have millions."""

    @property
    def key(self) -> RunId:
        """See `schedule_key`."""
        return schedule_key(self.namespace, self.schedule)


def schedule_key(namespace: str, name: str) -> RunId:
    """Return the key of a schedule in places that hold run ids: deadlines, and groups of writes."""
    return RunId(f"{escaped(namespace)}/{name}")


def escaped(namespace: str) -> str:
    """Return a namespace with its slashes escaped."""
    return namespace.replace("%", "%25").replace("/", "%2F")


def named_by(key: RunId) -> tuple[Namespace, str]:
    """Return the namespace and the name of the schedule with this key."""
    namespace, _, name = key.partition("/")
    return Namespace(namespace.replace("%2F", "/").replace("%25", "%")), name


@lru_cache(maxsize=10_000)
def _timetable(cron_expr: str, timezone: str, dst: str) -> Timetable:
    return parse_timetable(cron_expr, timezone, dst)
