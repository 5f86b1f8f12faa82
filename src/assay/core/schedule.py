"""A schedule: when to start which workflow, and what to do when runs overlap or fires are missed (R43, R44)."""

import hashlib
from enum import StrEnum
from functools import lru_cache

import msgspec

from assay.core.ids import SECOND, Namespace, RunId, Time
from assay.core.payload import NULL, Payload
from assay.core.timetable import Timetable, parse_timetable


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


class Schedule(msgspec.Struct, frozen=True):
    """A schedule as it is now. Each due time fires once: the next is computed from the last, never from now (I11)."""

    namespace: Namespace
    name: str
    workflow_type: str
    cron_expr: str
    created_at: Time
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
    search_attributes: Payload = NULL
    memo: Payload = NULL
    paused: bool = False
    pause_reason: str | None = None
    paused_by: str | None = None
    paused_at: Time | None = None
    next_run_at: Time | None = None
    last_run_at: Time | None = None
    last_workflow_id: str | None = None
    waiting: tuple[Time, ...] = ()
    """Due times that wait for the open run to close, oldest first."""
    updated_at: Time = 0
    version: int = 0

    def timetable(self) -> Timetable:
        """When it fires."""
        return _timetable(self.cron_expr, self.timezone, self.dst)

    def after(self, time: Time) -> Time | None:
        """The first due time after `time`, or None when there is none left."""
        if self.remaining == 0:
            return None
        due = self.timetable().next(time, self.created_at)
        return None if due is None or (self.end_at is not None and due > self.end_at) else due

    def delay(self, due: Time) -> Time:
        """How much later than due the fire happens: spread by jitter, the same whoever asks."""
        if self.jitter <= 0:
            return 0
        seed = hashlib.blake2b(f"{self.namespace}/{self.name}/{due}".encode(), digest_size=8).digest()
        return int.from_bytes(seed) % self.jitter

    def wakes_at(self) -> Time | None:
        """When somebody has to look at it."""
        if self.paused or self.next_run_at is None:
            return None
        return self.next_run_at + self.delay(self.next_run_at)

    def run_name(self, due: Time) -> str:
        """The workflow id of the run for a due time: the same on every engine, so that it can start only once."""
        return f"{self.name}-{due // SECOND}"


class Fire(msgspec.Struct, frozen=True):
    """What became of one due time, and why."""

    namespace: Namespace
    schedule: str
    due_at: Time
    fired_at: Time
    outcome: str
    """started, skipped, queued, dropped, missed, paused or failed."""
    reason: str | None = None
    workflow_id: str | None = None
    run_id: RunId | None = None
    trigger: str = "time"
    """time, manual or backfill."""


@lru_cache(maxsize=10_000)
def _timetable(cron_expr: str, timezone: str, dst: str) -> Timetable:
    return parse_timetable(cron_expr, timezone, dst)
