"""Programs outside that start, signal, cancel and wait for workflows, and write down what they were promised."""

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from assay.core.model.errors import AlreadyExists, AssayError, Invalid, Kind, NotFound, Refused
from assay.core.model.ids import SECOND, Namespace, RunId, RunKey, WorkflowId
from assay.core.model.payload import Payload
from assay.core.model.policies import IdConflict, IdReuse, RetryPolicy
from assay.core.model.replies import Started
from assay.core.model.requests import Request, RequestCancel, RetryFailed, Signal, StartWorkflow, Terminate
from assay.core.model.run import COMPLETED
from assay.engine.commit.idempotency import IdempotencyKey, Rendered
from assay.storage.ports import Rejected
from simulation.ledger import Sent
from simulation.loop import Node
from simulation.programs import Step, walk
from simulation.settings import chance_of
from simulation.tables import PLACE

if TYPE_CHECKING:
    from simulation.world import World

NAMESPACE = Namespace("main")
TRIES = 400
STATUS, CLOSED_AT = PLACE["runs"]["status"], PLACE["runs"]["closed_at"]


class Client:
    """One program outside, which cares for one workflow id."""

    def __init__(self, world: "World", program: Step) -> None:
        self.name = f"client-{program['id']}"
        self.node = Node(self.name)
        self._world = world
        self._program = program
        self._id = WorkflowId(program["id"])
        self._chance = chance_of(world.settings.seed, self.name)
        self._messages = 0
        self._padding = "x" * world.settings.payload_bytes
        # a second run would find the children of the first under their ids
        self._has_children = any("program" in step for _, step in walk(program))
        self._starters = 0
        self.busy = True

    def begin(self) -> None:
        """Start doing what it does."""
        self._world.loop.spawn(self.node, self._run())

    async def _run(self) -> None:
        await self._pause(3)
        self._starters = self._chance.choice((1, 1, 2))
        await asyncio.gather(*(self._start(place) for place in range(self._starters)))
        others = [self._send(workflow_id, step) for workflow_id, step in walk(self._program) if "count" in step]
        others += [self._noise() for _ in range(self._chance.choice((0, 0, 1, 3)))]
        if self._chance.random() < self._world.settings.cancels:
            others.append(self._cancel())
        if self._chance.random() < self._world.settings.terminations:
            others.append(self._terminate())
        waiting = asyncio.create_task(self._wait()) if self._chance.random() < 0.5 else None
        await asyncio.gather(*others)
        if self._world.settings.retries and self._chance.random() < self._world.settings.retries:
            await self._retry()
        self.busy = False
        if waiting is not None:
            await waiting

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(self._chance.random() * seconds)

    async def _call(self, request: Request, key: IdempotencyKey | None = None) -> Any:
        engine = self._chance.choice(self._world.engines)
        return await self._world.network.call(self, engine, lambda: engine.submit(request, key), once=key is None)

    async def _start(self, place: int) -> None:
        request = StartWorkflow(
            namespace=NAMESPACE,
            workflow_id=self._id,
            workflow_type="program",
            input=Payload(msgspec.json.encode({**self._program, "padding": self._padding})),
            request_id=f"{self._id}/{place}",
            id_conflict_policy=self._chance.choice((IdConflict.FAIL, IdConflict.USE_EXISTING)),
            id_reuse_policy=IdReuse.REJECT_DUPLICATE if self._has_children else IdReuse.ALLOW_DUPLICATE,
            start_delay=self._chance.choice((None, None, None, None, SECOND)),
            retry_policy=RetryPolicy(max_attempts=0) if self._program.get("retry") else None,
        )
        key = self._key(request) if self._chance.random() < 0.5 else None
        if place:
            await self._pause(2)
        for _ in range(TRIES):
            try:
                reply = await self._call(request, key)
            except AlreadyExists:
                self._was_alone(request)
                return
            except AssayError as error:
                self._only_unavailable(error, request)
                await self._pause(1)
                continue
            self._world.checks.started(request, reply)
            if isinstance(reply, Started) and not reply.started:
                self._was_alone(request)
            return
        self._world.ledger.violate(f"liveness: {self._id} could not be started in {TRIES} tries")

    def _was_alone(self, request: Request) -> None:
        if self._starters == 1:
            self._world.ledger.violate(f"I3 the only start of {self._id} was told that somebody else had done it")

    def _key(self, request: Request) -> IdempotencyKey:
        self._messages += 1
        return IdempotencyKey("main", f"{self._id}#{self._messages}", repr(request).encode(), _rendered)

    def _only_unavailable(self, error: AssayError, request: Request) -> None:
        if error.kind is not Kind.UNAVAILABLE:
            self._world.ledger.violate(f"I3 {request} was refused with {error!r}")

    async def _send(self, workflow_id: str, step: Step) -> None:
        await self._pause(6)
        for number in range(step["count"]):
            if self._chance.random() < 0.3:
                await self._pause(4)
            await self._insist(workflow_id, step["name"], number)

    async def _insist(self, workflow_id: str, name: str, number: int) -> None:
        """Send a signal until it is taken; a run that is not there yet may come, one that has ended needs it not."""
        for _ in range(TRIES):
            if await self._signal(workflow_id, name, number) or self._world.is_over(workflow_id):
                return
            await self._pause(3)

    async def _noise(self) -> None:
        await self._pause(12)
        await self._signal(self._id, "noise", 0)

    async def _signal(self, workflow_id: str, name: str, number: int) -> bool:
        """Send a signal once; with a key until it is known how that went."""
        self._messages += 1
        nonce = f"{self._id}/{self._messages}"
        payload = Payload(msgspec.json.encode({"id": number, "nonce": nonce, "padding": self._padding}))
        request = Signal(NAMESPACE, WorkflowId(workflow_id), None, name, payload)
        key = self._key(request) if self._chance.random() < 0.5 else None
        sent = Sent(workflow_id, nonce, keyed=key is not None)
        self._world.ledger.signals.append(sent)
        for _ in range(TRIES if key else 1):
            try:
                reply = await self._call(request, key)
            except NotFound:
                return False
            except AssayError as error:
                self._only_unavailable(error, request)
                # A signal without a key is sent once: if the store has rejected it, it must not be found later (I3).
                sent.unsure = key is not None or error.code != Rejected.code
                await self._pause(1)
                continue
            sent.acked = not isinstance(reply, Rendered) or reply.status == 200
            sent.unsure = False
            return sent.acked
        return False

    async def _cancel(self) -> None:
        await self._pause(8)
        self._world.ledger.cancels.add(self._id)
        run_id = self._world.newest(self._id)
        deadline = self._chance.choice((None, None, 2 * SECOND))
        request = RequestCancel(NAMESPACE, self._id, run_id, "please", None, deadline)
        if run_id is not None and await self._order(request):
            self._world.ledger.acked_cancels.add(run_id)

    async def _terminate(self) -> None:
        await self._pause(8)
        self._world.ledger.terminations.add(self._id)
        run_id = self._world.newest(self._id)
        if run_id is not None and await self._order(Terminate(NAMESPACE, self._id, run_id, "enough")):
            self._world.ledger.acked_terminations.add(run_id)

    async def _retry(self) -> None:
        """Wait for the end of the newest run, and let it go on if it did not complete."""
        rows = self._world.database.tables.rows["runs"]
        for _ in range(TRIES):
            run_id = self._world.newest(self._id)
            row = None if run_id is None else rows[(run_id,)]
            if row is not None and row[STATUS] == COMPLETED:
                return
            if row is not None and row[CLOSED_AT] is not None:
                try:
                    await self._call(RetryFailed(NAMESPACE, self._id, run_id, self.name, "again"))
                except Refused as refusal:
                    # the answer to the same request may have been lost
                    if refusal.code != "already_continued":
                        self._world.ledger.violate(f"I3 the retry of {self._id} was refused with {refusal!r}")
                except AssayError as error:
                    self._only_unavailable(error, RetryFailed(NAMESPACE, self._id, run_id))
                    await self._pause(1)
                    continue
                return
            await self._pause(1)

    async def _order(self, request: Request) -> bool:
        try:
            await self._call(request)
        except NotFound:
            return False
        except AssayError as error:
            self._only_unavailable(error, request)
            return False
        return True

    async def _wait(self) -> None:
        """Wait for a run's end, at whichever engine answers."""
        run_id = self._world.newest(self._id)
        while run_id is not None:
            engine = self._chance.choice(self._world.engines)
            key = RunKey(NAMESPACE, self._id, run_id)
            try:
                waiting = self._world.network.call(self, engine, _closing(self._world, engine, key))
                _, event = await waiting
            except AssayError:
                await self._pause(2)
                continue
            self._world.ledger.results[run_id] = event
            return


def _closing(world: "World", engine: Any, key: RunKey) -> "Callable[[], asyncio.Future[Any]]":
    return lambda: world.loop.create_task(engine.running().wait_closed(key, follow=False))


def _rendered(reply: object) -> tuple[int, bytes]:
    if isinstance(reply, AssayError):
        return (409 if isinstance(reply, AlreadyExists) else 404, reply.code.encode())
    if isinstance(reply, Started):
        return 201, f"{reply.key.run_id} {reply.started}".encode()
    return 200, b"null"


def run_of(reply: object) -> RunId | None:
    """The run that a start's answer names, if it names one."""
    if isinstance(reply, Started):
        return reply.key.run_id
    if isinstance(reply, Rendered) and reply.status == 201:
        return RunId(reply.body.decode().split()[0])
    return None


__all__ = ["SECOND", "Client", "Invalid", "random", "run_of"]
