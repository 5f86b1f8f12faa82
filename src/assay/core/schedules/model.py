"""A schedule: when to start which workflow, and what to do when runs overlap or fires are missed (R43, R44)."""

import hashlib
from enum import StrEnum
from functools import lru_cache

import msgspec

from assay.core.model.ids import SECOND, Namespace, RunId, Time
from assay.core.model.payload import NULL, Payload
from assay.core.schedules.timetable import Timetable, parse_timetable

RECHECK_INTERVAL: Time = 30 * SECOND
"""How long fires wait at most before somebody looks whether the open run is closed: who was to say so may have died."""


class Overlap(StrEnum):
    """What a fire does while the run of an earlier one is open (R43)."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL_OLD = "cancel_old"
    TERMINATE_OLD = "terminate_old"
    ALLOW_ALL = "allow_all"


class Missed(StrEnum):
    """Which of the fires that came while no engine ran are made up for, within the window (R44)."""

    SKIP = "skip"
    LAST = "last"
    ALL = "all"


class Trigger(StrEnum):
    """Why a schedule fires: its time has come, somebody wants it now, or for a due time of the past."""

    TIME = "time"
    MANUAL = "manual"
    BACKFILL = "backfill"


class FireOutcome(StrEnum):
    """What became of a due time."""

    STARTED = "started"
    QUEUED = "queued"
    SKIPPED = "skipped"
    DROPPED = "dropped"
    MISSED = "missed"
    PAUSED = "paused"
    FAILED = "failed"


class Waiting(msgspec.Struct, frozen=True):
    """A fire that waits for the open run to close, and the workflow id of the run it will start."""

    due_at: Time
    workflow_id: str
    trigger: Trigger = Trigger.TIME


class Schedule(msgspec.Struct, frozen=True):
    """A schedule as it is now. Each due time fires once: the next is computed from the last, never from now (I11)."""

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
    """How many more runs it may start by itself; those asked for by hand or by a backfill do not count."""
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
    """Workflow ids of its runs that were open when somebody looked last, oldest first."""
    waiting: tuple[Waiting, ...] = ()
    """Fires that wait for the open run to close, oldest first."""
    decided_until: Time = 0
    """The latest due time that was decided. The wall clock may be set back before it: nothing fires again (I11)."""
    given_up: tuple[tuple[Time, Time], ...] = ()
    """Due times up to `decided_until` that were recorded only as missed: ranges, both ends included, oldest first. They
    fire after all when the wall clock was set back and reaches them again."""
    updated_at: Time = 0
    version: int = 0

    @property
    def key(self) -> RunId:
        """See `schedule_key`."""
        return schedule_key(self.namespace, self.name)

    def timetable(self) -> Timetable:
        """When it fires."""
        return _timetable(self.cron_expr, self.timezone, self.dst)

    def after(self, time: Time) -> Time | None:
        """Return the first due time after `time` that is still to fire, or None when there is none left."""
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

    def gave_up(self, due: Time) -> bool:
        """Was a due time recorded only as missed?"""
        return any(first <= due <= last for first, last in self.given_up)

    def _due_after(self, time: Time) -> Time | None:
        due = self.timetable().next(time, self.created_at)
        return None if due is None or (self.end_at is not None and due > self.end_at) else due

    def latest(self, due: Time, until: Time) -> Time:
        """The last due time up to `until`, if `due` is one; found by halving, for there may be millions of them."""
        low, high = due, until
        while high - low >= SECOND:  # no two due times are closer
            middle = (low + high) // 2
            found = self.after(middle)
            if found is not None and found <= until:
                low = found
            else:
                high = middle
        return low

    def delay(self, due: Time) -> Time:
        """How much later than due the fire happens: spread by jitter, the same whoever asks."""
        if self.jitter <= 0:
            return 0
        seed = hashlib.blake2b(f"{self.namespace}/{self.name}/{due}".encode(), digest_size=8).digest()
        return int.from_bytes(seed) % self.jitter

    def wakes_at(self) -> Time | None:
        """When somebody has to look at it."""
        if self.paused:
            return None
        fires = None if self.next_run_at is None else self.next_run_at + self.delay(self.next_run_at)
        if not self.waiting:
            return fires
        checks = self.updated_at + RECHECK_INTERVAL
        return checks if fires is None else min(fires, checks)

    def run_name(self, due: Time) -> str:
        """The workflow id of the run for a due time: the same on every engine, so that it can start only once."""
        whole, fraction = divmod(due, SECOND)
        return f"{self.name}-{whole}.{fraction:06}" if fraction else f"{self.name}-{whole}"


class Fire(msgspec.Struct, frozen=True):
    """What became of one due time, and why."""

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
    """Set in a record that stands for all due times from `due_at` up to this one: an outage may have millions."""

    @property
    def key(self) -> RunId:
        """See `schedule_key`."""
        return schedule_key(self.namespace, self.schedule)


def schedule_key(namespace: str, name: str) -> RunId:
    """What a schedule is called where runs have their id: for its deadline, and to tie writes to each other."""
    return RunId(f"{escaped(namespace)}/{name}")


def escaped(namespace: str) -> str:
    """A namespace without a slash, to stand before one."""
    return namespace.replace("%", "%25").replace("/", "%2F")


def named_by(key: RunId) -> tuple[Namespace, str]:
    """The namespace and the name of the schedule that is called `key`."""
    namespace, _, name = key.partition("/")
    return Namespace(namespace.replace("%2F", "/").replace("%25", "%")), name


@lru_cache(maxsize=10_000)
def _timetable(cron_expr: str, timezone: str, dst: str) -> Timetable:
    return parse_timetable(cron_expr, timezone, dst)
