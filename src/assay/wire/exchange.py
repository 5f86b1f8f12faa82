"""What a worker of our SDK and an engine say to each other: one message format, whatever carries it (design section 6).

A worker numbers its reports and repeats one, unchanged and under its number, until the answer has come. An engine that
still knows the number gives the same answer again; one that was restarted meanwhile decides it anew, and there the
fence in the token sees to it that a report has its effect once: the epoch and the last seen seq of a workflow task, the
id of an attempt (R8, R9). Every lease travels as a token that only the engine can make (4.1).

Messages are numbered, too: one that comes twice, or later than a hello that was said after it, is not heard. Its answer
would take work to where nobody waits for it, and its count of free hands is an old one.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from assay.core import codec
from assay.core.commands import AnyCommand
from assay.core.events import ActivityOptions, Recorded
from assay.core.failure import FailureInfo
from assay.core.ids import Seq, Time
from assay.core.input_hash import InputHash
from assay.core.payload import NULL, Payload
from assay.core.replies import Advanced

MESSAGE_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of one message in either direction (R37)."""
HISTORY_LIMIT: Final = 1024 * 1024
"""Bytes of events that travel with a task, and of a page of a history."""
SILENCE: Final = 6.0
"""Seconds after which either side takes the other for gone."""
KEEP_ALIVE: Final = 2.0
"""Seconds after which a worker that has nothing to say says so."""
LONGEST_WAIT: Final = 25.0
"""Seconds that a request may be held; clients and proxies commonly give up at 30."""


class Told(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The common face of reports: a number to be answered under, and the lease it is about."""

    n: int
    token: str


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

    token: str
    time: Time
    result: Payload = NULL


class Advance(Told, frozen=True, gc=False, omit_defaults=True, tag="advance"):
    """A turn of a run: outcomes, then the commands that follow; `early` if the code has yet to go on from them."""

    seen_seq: int = 0
    commands: tuple[AnyCommand, ...] = ()
    outcomes: tuple[StepDone | ActivityDone, ...] = ()
    pending: bool = False
    early: bool = False


class FailTask(Told, frozen=True, gc=False, omit_defaults=True, tag="fail_task"):
    """The task cannot be done at present (R21)."""

    reason: str = ""
    message: str = ""


class ExtendTask(Told, frozen=True, gc=False, omit_defaults=True, tag="extend_task"):
    """The task is still being worked on."""


class ReleaseTask(Told, frozen=True, gc=False, omit_defaults=True, tag="release_task"):
    """The task goes back undone."""


class CompleteActivity(Told, frozen=True, gc=False, omit_defaults=True, tag="complete_activity"):
    """An attempt succeeded."""

    result: Payload = NULL


class FailActivity(Told, frozen=True, gc=False, omit_defaults=True, tag="fail_activity"):
    """An attempt failed."""

    failure: FailureInfo = FailureInfo()


class CancelledActivity(Told, frozen=True, gc=False, omit_defaults=True, tag="cancelled_activity"):
    """An attempt that was asked to stop has stopped."""

    details: Payload = NULL


class HeartbeatActivity(Told, frozen=True, gc=False, omit_defaults=True, tag="heartbeat_activity"):
    """An attempt says that it is alive."""

    details: Payload = NULL


class ExtendActivity(Told, frozen=True, gc=False, omit_defaults=True, tag="extend_activity"):
    """The process of an attempt is alive."""


class ReleaseActivity(Told, frozen=True, gc=False, omit_defaults=True, tag="release_activity"):
    """An attempt goes back as if it had not begun."""


class ReadHistory(Told, frozen=True, gc=False, omit_defaults=True, tag="history"):
    """A page of the history of a run whose task the worker was given."""

    after: int = 0


class Unreadable(Told, frozen=True, gc=False):
    """A report that makes no sense; never sent, but what the engine makes of one, so that it is answered as others."""

    reason: str


Report = (
    Advance
    | FailTask
    | ExtendTask
    | ReleaseTask
    | CompleteActivity
    | FailActivity
    | CancelledActivity
    | HeartbeatActivity
    | ExtendActivity
    | ReleaseActivity
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
    held: tuple[str, ...] = ()
    """The tokens of all leases in its hands; what the engine leased to it beside these is sent again (R11)."""
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
    """Hands that became free since its hello: for workflow tasks, for activities. Totals, so that a lost message costs
    nothing."""
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


class Task(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A workflow task. `events` begin after `after`, or are absent: then the worker asks for the history."""

    token: str
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


class Activity(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attempt of an activity."""

    token: str
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


class Answer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The answer to a report: nothing but its number when it was done and there is no more to say."""

    n: int
    problem: Problem | None = None
    advanced: Advanced | None = None
    token: str | None = None
    """The lease under which an advanced run is now held, where it is another one than before."""
    cancel_requested: bool = False
    events: tuple[SentEvent, ...] | None = None
    more: bool = False


class EngineMessage(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What an engine says."""

    time: Time
    """The engine's, when it said so (R12)."""
    answers: list[Answer] = []
    tasks: list[Task] = []
    activities: list[Activity] = []
    news: list[str] = []
    """Runs whose task the worker holds and that have new events (R3)."""
    cancelled: list[int] = []
    """Attempts that are no longer wanted."""
    over: list[int] = []
    """Those of `cancelled` that have timed out: there is nothing left for them to do."""
    problem: Problem | None = None
    """Why the whole message was refused."""


encode: Final = msgspec.json.Encoder().encode
decode_from_worker: Final = msgspec.json.Decoder(WorkerMessage).decode
decode_unread: Final = msgspec.json.Decoder(UnreadMessage).decode
decode_report: Final = msgspec.json.Decoder(Report).decode
decode_from_engine: Final = msgspec.json.Decoder(EngineMessage).decode


def unreadable(body: bytes, reason: str) -> Unreadable:
    """What stands for a report of which no more can be told than whose it is."""
    told = msgspec.json.decode(body, type=Told)
    return Unreadable(told.n, told.token, reason)


def sent(events: Iterable[Recorded]) -> tuple[SentEvent, ...]:
    """Events on their way to a worker."""
    return tuple([_sent(recorded) for recorded in events])


def _sent(recorded: Recorded) -> SentEvent:
    event: Any = recorded.event
    payload, data = codec.encode(event)
    kind = event.name if isinstance(event, codec.UnknownEvent) else event.recorded_name
    return SentEvent(recorded.seq, recorded.time, kind, Payload(payload), NULL if data is None else Payload(data))


def received(events: Iterable[SentEvent]) -> tuple[Recorded, ...]:
    """Events that came from an engine."""
    return tuple([_received(event) for event in events])


def _received(event: SentEvent) -> Recorded:
    data = bytes(event.data)
    decoded = codec.decode(event.kind, bytes(event.payload), None if data == b"null" else data)
    return Recorded(Seq(event.seq), event.time, decoded)


def size_of(events: Iterable[SentEvent]) -> int:
    """Bytes of documents in events, near enough to their size on the wire."""
    return sum(memoryview(event.payload).nbytes + memoryview(event.data).nbytes for event in events)
