"""The messages between workers of the SDK and an engine, for every transport.

A worker numbers its reports and repeats each report, unchanged and under its number, until the answer has arrived. An
engine with the number in memory repeats its answer. A restarted engine decides the report again, and the fence in the
token prevents a second effect: epoch and last seen seq of a workflow task (I7), or the id of an attempt (I8). Leases
are sent as tokens, which only the engine can create.

Messages are numbered as well. A message that arrives twice, or after a later hello, is refused: no request would wait
for the leases in its answer, and its count of free slots is outdated.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from assay.core import codec
from assay.core.model.commands import AnyCommand
from assay.core.model.events import ActivityOptions, Recorded
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Seq, Time
from assay.core.model.input_hash import InputHash
from assay.core.model.payload import NULL, Payload
from assay.core.model.replies import Advanced
from assay.worker_protocol.tokens import Token

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""The maximum size of a message in either direction."""
MAX_HISTORY_BYTES: Final = 1024 * 1024
"""The maximum size of the events in a task, and of a page of a history."""
SILENCE_SECONDS: Final = 6.0
"""The time without a message after which a side considers the other as disconnected."""
KEEP_ALIVE_SECONDS: Final = 2.0
"""The time without a message after which a worker sends an empty message."""
MAX_WAIT_SECONDS: Final = 25.0
"""The maximum time that a request is held; clients and proxies commonly time out after 30 seconds."""


class WorkerReport(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The common fields of reports: the report's number, and the token of its lease."""

    n: int
    token: Token


class StepDone(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="step"):
    """The outcome of an inline step."""

    seq: int
    name: str
    time: Time
    result: Payload = NULL
    failure: FailureInfo | None = None
    attempt: int = 1
    retry_in: float | None = None
    input_hash: InputHash | None = None


class ActivityDone(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="activity"):
    """The result of an activity with which the worker has already advanced."""

    token: Token
    time: Time
    result: Payload = NULL


class AdvanceReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="advance"):
    """A turn of a run: outcomes, then the resulting commands; `early` if the code has not yet run on from them.

    A turn with more commands than a message may have is sent in parts. All parts but the last have `more` and keep the
    lease. `deadlock` is a sentence about code that waits for nothing that can come.
    """

    seen_seq: int = 0
    commands: tuple[AnyCommand, ...] = ()
    outcomes: tuple[StepDone | ActivityDone, ...] = ()
    pending: bool = False
    early: bool = False
    more: bool = False
    deadlock: str | None = None


class FailTaskReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="fail_task"):
    """The workflow task failed; the run stays open."""

    reason: str = ""
    message: str = ""


class ExtendTaskReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="extend_task"):
    """The worker still holds the workflow task."""


class ReleaseTaskReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="release_task"):
    """The worker releases the workflow task undone."""


class CompleteActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="complete_activity"):
    """An attempt succeeded."""

    result: Payload = NULL


class FailActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="fail_activity"):
    """An attempt failed."""

    failure: FailureInfo = FailureInfo()


class CancelledActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="cancelled_activity"):
    """An attempt stopped because of a cancel request."""

    details: Payload = NULL


class HeartbeatActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="heartbeat_activity"):
    """The heartbeat of an attempt."""

    details: Payload = NULL


class ExtendActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="extend_activity"):
    """The worker still holds an attempt; not a heartbeat."""


class ReleaseActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="release_activity"):
    """The worker releases an attempt, as if it had not begun."""


class ReadHistory(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="history"):
    """A read of a page of a history; the worker holds or held a task of the run."""

    after: int = 0


class Unreadable(WorkerReport, frozen=True, gc=False):
    """A report that cannot be decoded; created by the engine, to answer the report with an error."""

    reason: str


Report = (
    AdvanceReport
    | FailTaskReport
    | ExtendTaskReport
    | ReleaseTaskReport
    | CompleteActivityReport
    | FailActivityReport
    | CancelledActivityReport
    | HeartbeatActivityReport
    | ExtendActivityReport
    | ReleaseActivityReport
    | ReadHistory
)


class Hello(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The description of a worker: in the first message of a connection, and whenever the engine requests it."""

    queue: str
    namespace: str = "main"
    identity: str = ""
    workflows: tuple[str, ...] | None = None
    activities: tuple[str, ...] | None = None
    max_concurrent_workflows: int = 0
    max_concurrent_activities: int = 0
    free_tasks: int = 0
    free_activities: int = 0
    process_activities: tuple[str, ...] = ()
    """The activities that run in processes of the worker; a process runs one attempt at a time."""
    free_processes: int = 0
    """The number of idle processes: the limit of leases of `process_activities`."""
    held: tuple[Token, ...] = ()
    """The tokens of all leases that the worker holds; the engine sends all other leases of the worker again."""
    runs: tuple[str, ...] = ()
    """The runs whose live coroutine the worker keeps."""
    again: bool = False
    """True if the worker was connected before; a new worker holds no leases."""


class WorkerMessage(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A message of a worker."""

    number: int = 0
    """The number of the message, counted from 1 over all connections; 0 for a worker without numbers."""
    hello: Hello | None = None
    reports: tuple[Report, ...] = ()
    freed: tuple[int, int] | None = None
    """The slots for workflow tasks and activities released since the hello: totals, because messages may be lost."""
    freed_processes: int = 0
    """The processes that became idle since the hello, minus the processes that exited; a total, used with `freed`."""
    answered: int = 0
    """The lowest report number without an answer: the engine drops its answers to earlier reports."""
    dropped: tuple[str, ...] = ()
    """The runs whose coroutine the worker has dropped."""
    leaving: bool = False
    """True if the worker accepts no more work."""
    wait_secs: float = 0
    """The time that this request may be held while the engine has nothing to send; 0 over a WebSocket."""


class UnreadMessage(WorkerMessage, kw_only=True):
    """A message of a worker with undecoded reports."""

    reports: tuple[msgspec.Raw, ...] = ()  # type: ignore[assignment]  # decoded later, one by one


class SentEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An event, encoded by `core.codec`."""

    seq: int
    time: Time
    kind: str
    payload: Payload = NULL
    data: Payload = NULL


class SentTask(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A workflow task. `events` begin after the seq `after`; without events the worker reads the history."""

    token: Token
    workflow_id: str
    run_id: str
    workflow_type: str
    task_queue: str
    epoch: int
    seen_seq: int
    last_seq: int
    history_bytes: int = 0
    events: tuple[SentEvent, ...] | None = None
    after: int = 0


class SentActivity(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attempt of an activity."""

    token: Token
    workflow_id: str
    run_id: str
    workflow_type: str
    seq: int
    id: int
    attempt_id: int
    attempt: int
    name: str
    task_queue: str
    input: Payload = NULL
    options: ActivityOptions = ActivityOptions()
    details: Payload = NULL
    context: Payload = NULL
    """The context of the run, with the values of the call over it."""
    actor: str | None = None
    scope: tuple[str, ...] | None = None


class Problem(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The reason of a refusal; the same fields as in the body of an HTTP error."""

    error: str
    code: str
    kind: str
    field: str | None = None


class ReportAnswer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The answer to a report: only its number if the report succeeded without a reply."""

    n: int
    problem: Problem | None = None
    advanced: Advanced | None = None
    token: Token | None = None
    """The new lease of the run after a turn, if the worker keeps the task under another epoch."""
    cancel_requested: bool = False
    events: tuple[SentEvent, ...] | None = None
    more: bool = False


class EngineMessage(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A message of an engine."""

    time: Time
    """Engine time when the message was sent."""
    answers: list[ReportAnswer] = []
    tasks: list[SentTask] = []
    activities: list[SentActivity] = []
    news: list[str] = []
    """The runs with new events whose task the worker holds."""
    cancelled: list[int] = []
    """The attempts to cancel."""
    over: list[int] = []
    """The attempts in `cancelled` that have timed out or lost their lease."""
    problem: Problem | None = None
    """The reason why the whole message was refused."""


COMPONENT_NAMES: Final[dict[type, str]] = {
    AdvanceReport: "Advance",
    FailTaskReport: "FailTask",
    ExtendTaskReport: "ExtendTask",
    ReleaseTaskReport: "ReleaseTask",
    CompleteActivityReport: "CompleteActivity",
    FailActivityReport: "FailActivity",
    CancelledActivityReport: "CancelledActivity",
    HeartbeatActivityReport: "HeartbeatActivity",
    ExtendActivityReport: "ExtendActivity",
    ReleaseActivityReport: "ReleaseActivity",
    SentTask: "Task",
    SentActivity: "Activity",
    ReportAnswer: "Answer",
    Problem: "ExchangedProblem",
}
"""Names in the API description, where they differ from the class name. Published names are data and never change."""

encode: Final = msgspec.json.Encoder().encode


def sent(events: Iterable[Recorded]) -> tuple[SentEvent, ...]:
    """Return events encoded for a message to a worker."""
    return tuple([_sent(recorded) for recorded in events])


def _sent(recorded: Recorded) -> SentEvent:
    event: Any = recorded.event
    payload, data = codec.encode(event)
    kind = event.name if isinstance(event, codec.UnknownEvent) else event.recorded_name
    return SentEvent(recorded.seq, recorded.time, kind, Payload(payload), NULL if data is None else Payload(data))


def received(events: Iterable[SentEvent]) -> tuple[Recorded, ...]:
    """Return the decoded events of a message."""
    return tuple([_received(event) for event in events])


def _received(event: SentEvent) -> Recorded:
    data = bytes(event.data)
    decoded = codec.decode(event.kind, bytes(event.payload), None if data == b"null" else data)
    return Recorded(Seq(event.seq), event.time, decoded)


def size_of(events: Iterable[SentEvent]) -> int:
    """Return the total size of the documents in events: nearly the size of the encoded events."""
    return sum(memoryview(event.payload).nbytes + memoryview(event.data).nbytes for event in events)
