"""The messages of the protocol between workers of the SDK and an engine, each defined once, for every carrier.

A worker numbers its reports and sends each, unchanged and under its number, until the answer has arrived. An engine
that has the number in memory repeats its answer; an engine that was restarted decides the report again, and the fence
in the token gives the report its effect once: epoch and last seen seq of a workflow task, or the id of an attempt (I7).
Every lease travels as a token that only the engine can make.

Messages are numbered, too: a message that arrives twice, or later than a hello that was sent after it, is refused. Its
answer would take leases to a request that nobody waits for, and its count of free slots is outdated.
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
"""The size of one message in either direction."""
MAX_HISTORY_BYTES: Final = 1024 * 1024
"""The size of the events that travel with a task, and of a page of a history."""
SILENCE_SECONDS: Final = 6.0
"""Either side treats the other as gone after so long without a message."""
KEEP_ALIVE_SECONDS: Final = 2.0
"""A worker sends an empty message after so long without another."""
MAX_WAIT_SECONDS: Final = 25.0
"""How long a request may be held; clients and proxies commonly give up at 30."""


class WorkerReport(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The fields of every report: the number of its answer, and the token of the lease that it is about."""

    n: int
    token: Token


class StepDone(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="step"):
    """How an inline step ended (R3)."""

    seq: int
    name: str
    time: Time
    result: Payload = NULL
    failure: FailureInfo | None = None
    attempt: int = 1
    retry_in: float | None = None
    input_hash: InputHash | None = None


class ActivityDone(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="activity"):
    """A result that the worker has already advanced on (R8)."""

    token: Token
    time: Time
    result: Payload = NULL


class AdvanceReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="advance"):
    """A turn of a run: outcomes, then the commands that follow; `early` if the code has yet to go on from them."""

    seen_seq: int = 0
    commands: tuple[AnyCommand, ...] = ()
    outcomes: tuple[StepDone | ActivityDone, ...] = ()
    pending: bool = False
    early: bool = False


class FailTaskReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="fail_task"):
    """The task cannot be done at present (R21)."""

    reason: str = ""
    message: str = ""


class ExtendTaskReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="extend_task"):
    """The task is still being worked on."""


class ReleaseTaskReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="release_task"):
    """The task goes back undone."""


class CompleteActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="complete_activity"):
    """An attempt succeeded."""

    result: Payload = NULL


class FailActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="fail_activity"):
    """An attempt failed."""

    failure: FailureInfo = FailureInfo()


class CancelledActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="cancelled_activity"):
    """An attempt that was asked to stop has stopped."""

    details: Payload = NULL


class HeartbeatActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="heartbeat_activity"):
    """An attempt says that it is alive."""

    details: Payload = NULL


class ExtendActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="extend_activity"):
    """The process of an attempt is alive."""


class ReleaseActivityReport(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="release_activity"):
    """An attempt goes back as if it had not begun."""


class ReadHistory(WorkerReport, frozen=True, gc=False, omit_defaults=True, tag="history"):
    """A page of the history of a run whose task the worker was given."""

    after: int = 0


class Unreadable(WorkerReport, frozen=True, gc=False):
    """A report that cannot be decoded; made by the engine, so that it is answered with an error like any other."""

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
    """A worker introduces itself: the first message of a connection, and whenever the engine asks who it is."""

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
    """The activities that run in processes of the worker, each of which runs one at a time."""
    free_processes: int = 0
    """How many of `process_activities` may be leased to it: as many as it has idle processes."""
    held: tuple[Token, ...] = ()
    """The tokens of all leases that it holds; leases of this worker that are not among them are sent again."""
    runs: tuple[str, ...] = ()
    """The runs whose live coroutine it keeps."""
    again: bool = False
    """Was it connected before? A worker that just began can hold nothing."""


class WorkerMessage(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What a worker says."""

    number: int = 0
    """One more with each message of its life; 0 for a worker that does not count."""
    hello: Hello | None = None
    reports: tuple[Report, ...] = ()
    freed: tuple[int, int] | None = None
    """Slots for workflow tasks and for activities released since its hello: totals, so that a message may be lost."""
    freed_processes: int = 0
    """Processes that became idle since its hello, less those that are there no more; a total, read with `freed`."""
    answered: int = 0
    """The lowest number that still waits for its answer: those before it may be forgotten."""
    dropped: tuple[str, ...] = ()
    """Runs whose coroutine it keeps no longer."""
    leaving: bool = False
    """It takes no more work."""
    wait_secs: float = 0
    """How long this request may be held when there is nothing to say; a WebSocket needs none."""


class UnreadMessage(WorkerMessage, kw_only=True):
    """The same with its reports as they came."""

    reports: tuple[msgspec.Raw, ...] = ()  # type: ignore[assignment]  # read later, one by one


class SentEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An event as `core.codec` writes it."""

    seq: int
    time: Time
    kind: str
    payload: Payload = NULL
    data: Payload = NULL


class SentTask(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A workflow task. `events` begin after `after`, or are absent: then the worker asks for the history."""

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


class Problem(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why something was refused; the same words as in the body of an HTTP error."""

    error: str
    code: str
    kind: str
    field: str | None = None


class ReportAnswer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The answer to a report: nothing but its number when it was done and there is no more to say."""

    n: int
    problem: Problem | None = None
    advanced: Advanced | None = None
    token: Token | None = None
    """The lease under which an advanced run is now held, where it is another one than before."""
    cancel_requested: bool = False
    events: tuple[SentEvent, ...] | None = None
    more: bool = False


class EngineMessage(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What an engine says."""

    time: Time
    """The engine's, when it said so (R12)."""
    answers: list[ReportAnswer] = []
    tasks: list[SentTask] = []
    activities: list[SentActivity] = []
    news: list[str] = []
    """Runs whose task the worker holds and that have new events (R3)."""
    cancelled: list[int] = []
    """Attempts that are no longer wanted."""
    over: list[int] = []
    """Those of `cancelled` that have timed out: there is nothing left for them to do."""
    problem: Problem | None = None
    """Why the whole message was refused."""


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
    """Return events in the form in which they are sent to a worker."""
    return tuple([_sent(recorded) for recorded in events])


def _sent(recorded: Recorded) -> SentEvent:
    event: Any = recorded.event
    payload, data = codec.encode(event)
    kind = event.name if isinstance(event, codec.UnknownEvent) else event.recorded_name
    return SentEvent(recorded.seq, recorded.time, kind, Payload(payload), NULL if data is None else Payload(data))


def received(events: Iterable[SentEvent]) -> tuple[Recorded, ...]:
    """Return the events of a message."""
    return tuple([_received(event) for event in events])


def _received(event: SentEvent) -> Recorded:
    data = bytes(event.data)
    decoded = codec.decode(event.kind, bytes(event.payload), None if data == b"null" else data)
    return Recorded(Seq(event.seq), event.time, decoded)


def size_of(events: Iterable[SentEvent]) -> int:
    """Return the bytes of the documents in events, which are nearly all of their size on the wire."""
    return sum(memoryview(event.payload).nbytes + memoryview(event.data).nbytes for event in events)
