"""A worker on trial: its transport is scripted, its engine is the real core, and the test says when an answer comes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

from assay.core.model import requests as rq
from assay.core.model.effects import Decision
from assay.core.model.errors import AssayError, Unavailable
from assay.core.model.events import Event, Recorded, SignalReceived
from assay.core.model.grants import ActivityGrant, TaskGrant
from assay.core.model.ids import Namespace, RunId, Time, WorkflowId
from assay.core.model.replies import ReplyCallback
from assay.core.model.run import Run
from assay.sdk.app import App
from assay.sdk.values.converter import Converter
from assay.sdk.worker.engine_worker import EngineWorker
from assay.sdk.worker.worker import Worker
from tests.core.support import World
from tests.sdk.support import payload, value_of

MAIN = Namespace("main")
Found = TypeVar("Found", bound=rq.Request)


class Instant:
    """A reply that is delivered by a direct call, as an engine in the same process does."""

    def __init__(self, callback: ReplyCallback) -> None:
        self._callback: ReplyCallback | None = callback

    def done(self) -> bool:
        return self._callback is None

    def set_result(self, reply: Any) -> None:
        self._deliver(reply, None)

    def set_exception(self, error: AssayError) -> None:
        self._deliver(None, error)

    def _deliver(self, reply: Any, error: AssayError | None) -> None:
        callback, self._callback = self._callback, None
        assert callback is not None
        callback(reply, error)


class Sent:
    """A request in flight. An engine in this process replies by a call, one behind a socket by a future."""

    instant: ClassVar[bool] = False

    def __init__(self, request: rq.Request, callback: ReplyCallback) -> None:
        self.request = request
        self.answer: Any = Instant(callback) if self.instant else asyncio.get_running_loop().create_future()
        if not self.instant:
            self.answer.add_done_callback(lambda answer: _reply_with(callback, answer))


def _reply_with(callback: ReplyCallback, answer: asyncio.Future[Any]) -> None:
    error: Any = answer.exception()
    callback(None if error else answer.result(), error)


class FakeTransport:
    """A `Transport` that records requests, and replies at once unless the test holds requests of that kind."""

    def __init__(self, lease: Time | None = None) -> None:
        self.lease = lease
        self.world = World()
        self.requests: list[rq.Request] = []
        self.held: tuple[type[rq.Request], ...] = ()
        self.waiting: list[Sent] = []
        self.worker: Worker | None = None
        self.unreadable: AssayError | None = None
        self._changed = asyncio.Event()

    def now(self) -> Time:
        return self.world.now

    def send(self, request: rq.Request, callback: ReplyCallback) -> None:
        sent = Sent(request, callback)
        self.requests.append(request)
        if isinstance(request, self.held):
            self.waiting.append(sent)
        else:
            asyncio.get_running_loop().call_soon(self._answer, sent)
        self._changed.set()

    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        await asyncio.sleep(0)
        if self.unreadable is not None:
            raise self.unreadable
        return self.world.histories[run_id][after:]

    def add_worker(self, worker: Worker, _refused: object = None) -> None:
        self.worker = worker
        self.pump()

    def remove_worker(self, worker: Worker) -> None:
        self.worker = None

    def offer_slots(self, worker: Worker) -> None:
        asyncio.get_running_loop().call_soon(self.pump)

    # the engine

    def ask(self, request: rq.Request) -> Any:
        """Submit a request of another client."""
        decision = self._decide(request)
        self.pump()
        return decision.reply

    def start(self, workflow_type: str, input: Any = None, workflow_id: str = "one") -> Run:
        """Start a run."""
        self.ask(
            rq.StartWorkflow(
                namespace=MAIN, workflow_id=WorkflowId(workflow_id), workflow_type=workflow_type, input=payload(input)
            )
        )
        return self.world.newest[WorkflowId(workflow_id)]

    def signal(self, name: str, value: Any = None, workflow_id: str = "one") -> None:
        """Send a signal."""
        self.ask(rq.Signal(MAIN, WorkflowId(workflow_id), name=name, payload=payload(value)))

    def cancel(self, workflow_id: str = "one") -> None:
        """Request the cancel of a run."""
        self.ask(rq.RequestCancel(MAIN, WorkflowId(workflow_id)))

    def _decide(self, request: rq.Request) -> Decision:
        decision = self.world.take(request)
        assert decision is not None
        run = decision.run
        for effect in decision.effects:
            activity = getattr(effect, "activity", None)
            wanted = getattr(effect, "status", None) != "CANCELLED" and not getattr(activity, "cancel_requested", False)
            if self.worker is not None and activity is not None and activity.running and not wanted:
                self.worker.cancel(activity.attempt_id)
        if self.worker is not None and run.task.since is not None and run.task.worker == self.worker.worker:
            self.worker.news(run.run_id)
        self._changed.set()
        return decision

    def _answer(self, sent: Sent) -> None:
        if sent.answer.done():
            return
        try:
            reply = self._decide(sent.request).reply
        except AssayError as error:
            sent.answer.set_exception(error)
        else:
            sent.answer.set_result(reply)
        self.pump()

    def pump(self) -> None:
        """Lease what is ready to the worker, up to its free slots."""
        worker = self.worker
        if worker is None:
            return
        for run in tuple(self.world.runs.values()):
            if run.closed:
                continue
            if run.task.ready and worker.slots.tasks > 0 and run.start.workflow_type in worker.workflows:
                self.lease_task(run)
            for activity in tuple(run.activities.values()):
                if activity.ready and worker.slots.activities > 0 and activity.queue == worker.queue:
                    self.lease_activity(run, activity.seq)

    def lease_task(self, run: Run) -> None:
        """Give the run's task to the worker."""
        worker = self.worker
        assert worker is not None
        worker.slots.reserve()
        self.world.take(rq.LeaseTask(run.run_id, worker.worker, worker.lease, worker.local))
        tail = tuple(self.world.histories[run.run_id][run.seen_seq :])
        worker.take(TaskGrant(run.key, run.start, run.task.epoch, run.seen_seq, run.last_seq, 0, tail))

    def lease_activity(self, run: Run, seq: int) -> None:
        """Give an activity to the worker."""
        worker = self.worker
        assert worker is not None
        worker.slots.reserve(run.activities[seq].name)
        self.world.take(rq.LeaseActivity(run.run_id, seq, worker.worker, worker.lease, worker.local))
        worker.take(ActivityGrant(run.key, run.start, run.activities[seq]))

    # what the test does and looks at

    def answer_next(self, *, lost: bool = False) -> None:
        """Reply to the oldest held request; with `lost` the request never arrived."""
        sent = self.waiting.pop(0)
        if lost:
            sent.answer.set_exception(Unavailable("the request was lost"))
        else:
            self._answer(sent)

    def swallow(self) -> None:
        """Apply the oldest held request, and lose the reply."""
        sent = self.waiting.pop(0)
        self._decide(sent.request)
        sent.answer.set_exception(Unavailable("the answer was lost"))

    def requests_of(self, kind: type[Found]) -> list[Found]:
        """Return the requests of a kind so far."""
        return [request for request in self.requests if isinstance(request, kind)]

    def events(self, kind: type[Event] = SignalReceived, workflow_id: str = "one") -> list[Any]:
        """The events of a kind in the newest run's history."""
        run_id = self.world.newest[WorkflowId(workflow_id)].run_id
        return [one.event for one in self.world.histories[run_id] if isinstance(one.event, kind)]

    async def until(self, true: Callable[[], Any]) -> Any:
        """Wait until something is the case."""
        while not true():
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), 0.02)  # threads and processes set no event
            except TimeoutError:
                continue
        return true()

    async def held_request(self, kind: type[Found]) -> Found:
        """The oldest request of a kind that is held."""
        found = await self.until(lambda: next((s.request for s in self.waiting if isinstance(s.request, kind)), None))
        assert isinstance(found, kind)
        return found

    async def closed(self, workflow_id: str = "one") -> Event:
        """Wait until the newest run of an id is closed: its closing event."""
        await self.until(lambda: self.world.newest[WorkflowId(workflow_id)].closed)
        return self.world.history(WorkflowId(workflow_id))[-1]

    async def result(self, workflow_id: str = "one") -> Any:
        """The result of a run."""
        closing: Any = await self.closed(workflow_id)
        return value_of(closing.result)

    async def quiet(self) -> None:
        """Let everything happen that can happen by itself."""
        for _ in range(20):
            await asyncio.sleep(0)


class Connection:
    """What a worker needs of a client."""

    def __init__(self, fake: FakeTransport, app: App) -> None:
        self.transport: Any = fake
        self.converter = Converter()
        self.namespace = "main"
        self.app = app


@asynccontextmanager
async def serving(
    app: App, *, fake: FakeTransport | None = None, **options: Any
) -> AsyncIterator[tuple[FakeTransport, EngineWorker]]:
    """Run a worker; at the end exactly its original slots must be free again."""
    fake = fake or FakeTransport()
    slots = {"max_concurrent_workflows": 5, "max_concurrent_activities": 7}
    worker = EngineWorker(fake, app, Worker(Connection(fake, app), **{**slots, **options}).options)  # type: ignore[arg-type]
    before = worker.slots.tasks, worker.slots.activities
    loop_errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: loop_errors.append(context))
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    try:
        yield fake, worker
        fake.held = ()
        while fake.waiting:
            fake.answer_next()
        await fake.quiet()
    finally:
        worker.stop()
        await running
    await fake.quiet()
    assert loop_errors == []
    assert (worker.slots.tasks, worker.slots.activities) == before, "a slot was lost or found"


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that is a coroutine function."""

    @functools.wraps(test)
    def run(*args: Any, **options: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **options), 60))

    return run
