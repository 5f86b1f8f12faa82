"""The shape of an explanation: what an open run waits for, and the facts from outside of the run that it needs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from assay.core.model.ids import Time

NONE, WATCH, PERSON, OPERATOR = "none", "watch", "person", "operator"
ATTENTIONS: Final = (NONE, WATCH, PERSON, OPERATOR)
"""By rank: `operator` if something must be repaired or started, `person` if something must be sent."""

KINDS: Final = (
    "non_determinism",
    "deadlock",
    "unsupported_version",
    "no_handler",
    "task_failed",
    "no_worker",
    "idle",
    "cancelling",
    "activity_retry",
    "step_retry",
    "activity_cancelling",
    "signal",
    "message",
    "send",
    "events",
    "activity_queued",
    "task_queued",
    "activity_running",
    "step_running",
    "task_running",
    "activities",
    "child",
    "children",
    "timer",
    "start_delay",
)
"""Kinds of waits of runs, the most telling first."""
SCHEDULE_KINDS: Final = ("schedule_queue", "schedule_paused", "schedule_next", "schedule_ended")


class Wait(msgspec.Struct, frozen=True):
    """One thing that a run or a schedule waits for; `fields` are those of its kind."""

    kind: str
    sentence: str
    attention: str = NONE
    since: Time | None = None
    until: Time | None = None
    """The time at which the wait ends by itself."""
    seq: int | None = None
    fields: Mapping[str, Any] = {}


class Explanation(msgspec.Struct, frozen=True):
    """Everything that a run waits for: the most telling wait first, and the attention that the worst one needs."""

    waits: Sequence[Wait]
    more: int
    attention: str
    as_of: Time

    @property
    def headline(self) -> Wait:
        """Return the most telling wait."""
        return self.waits[0]


class QueueFacts(msgspec.Struct, frozen=True):
    """A task queue: its workers with a recent heartbeat, the types they serve (None: all), and its ready work."""

    workers: int = 0
    workflows: frozenset[str] | None = frozenset()
    activities: frozenset[str] | None = frozenset()
    last_identity: str | None = None
    """The worker that was heard last, of a queue without workers."""
    last_seen: Time | None = None
    queued_tasks: int = 0
    queued_activities: int = 0


class ChildFact(msgspec.Struct, frozen=True):
    """An open child: its run, and the headline of its own waits."""

    workflow_id: str
    run_id: str
    workflow_type: str
    status: str
    created_at: Time
    seq: int | None = None
    summary: str | None = None
    attention: str = NONE


class ActivityCounts(msgspec.Struct, frozen=True):
    """The numbers of open activities of a run, of running ones, and of those between two attempts."""

    open: int
    running: int
    retrying: int


class StepFact(msgspec.Struct, frozen=True):
    """The inline step that the worker of the task executes now, as far as the worker reports it."""

    step: str
    attempt: int = 1
    max_attempts: int = 0
    since: Time | None = None
    next_try_at: Time | None = None
    error: str | None = None


NO_QUEUE: Final = QueueFacts()


class Facts(msgspec.Struct, frozen=True):
    """Facts about a run that its own state does not hold; facts of other engines may be some seconds old."""

    queues: Mapping[str, QueueFacts] = {}
    identities: Mapping[str, str] = {}
    """Names of workers for people, by worker id."""
    children: Sequence[ChildFact] = ()
    """Open children, oldest first, five at most."""
    open_children: int = 0
    total_children: int = 0
    step: StepFact | None = None
    activities: ActivityCounts | None = None
    """Given if the run has more open activities than were read."""

    def queue(self, name: str) -> QueueFacts:
        """Return the facts of a task queue; an unknown queue has no workers."""
        return self.queues.get(name, NO_QUEUE)

    def identity(self, worker: str) -> str:
        """Return the name of a worker for people."""
        return self.identities.get(worker) or worker


def worst(attentions: Sequence[str]) -> str:
    """Return the attention with the highest rank; `none` without any."""
    return max(attentions, key=ATTENTIONS.index, default=NONE)
