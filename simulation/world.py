"""A whole world from one number: engines, workers, clients, a database and a network, and what befalls them."""

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator
from unittest import mock

import msgspec

from assay.core.model.ids import SECOND, RunId, Time
from assay.core.model.limits import LIMITS
from assay.sdk.client.http import reconnector
from assay.sdk.client.transport import Transport
from assay.sdk.worker import live_run
from assay.sdk.worker.engine_worker import EngineWorker
from assay.sdk.worker.worker import Worker
from simulation.checks import Checks
from simulation.clients import Client
from simulation.faults import Chaos
from simulation.hosts import EngineHost, SimulatedClient, WorkerHost
from simulation.ledger import Ledger
from simulation.loop import Node, SimLoop, Stalled
from simulation.nemesis import Nemesis
from simulation.net import Network
from simulation.programs import Author, PlannedBug, Step
from simulation.remote_workers import HOLD_SECONDS
from simulation.settings import Settings, chance_of
from simulation.store import EPOCH, Database, Trouble
from simulation.tables import PLACE
from simulation.timetables import ScheduleKeeper
from simulation.unserved import UnservedLoad
from simulation.workflows import Programs

RUN = PLACE["runs"]
REST: Time = 15 * SECOND
"""How long the world is left alone when everything is done, so that workers hear of what nobody wants any more."""


class Outcome(msgspec.Struct, frozen=True):
    """How a seed ended."""

    seed: int
    violations: tuple[str, ...]
    digest: str
    seconds: float
    """Virtual ones."""
    steps: int
    commits: int
    boots: int
    runs: int
    events: int
    trace: tuple[str, ...] = ()


class World:
    """Everything of one seed."""

    def __init__(
        self,
        settings: Settings,
        *,
        programs: list[Step] | None = None,
        trouble: Trouble | None = None,
        tracing: bool = False,
    ) -> None:
        self.settings = settings
        self.ledger = Ledger()
        self.ledger.tracing = tracing
        chance = chance_of(settings.seed, "loop")
        self.loop = SimLoop(chance, hiccups=0.002 if settings.has("hiccup") else 0.0)
        self.checks = Checks(self)
        self.database = Database(self.loop, self.checks, shared=settings.shared)
        self.network = Network(self.loop, settings)
        self.chaos = Chaos(settings)
        self.trouble: Trouble = trouble or self.chaos
        self.handlers = Programs(self)
        self.app = self.handlers.app()
        self.node = Node("world")
        self._chance = chance_of(settings.seed, "world")
        author = Author(chance_of(settings.seed, "programs"), settings.kinds, settings.again)
        self.programs = programs or [self._program(author, number) for number in range(settings.programs)]
        self.engines = [EngineHost(self, number) for number in range(settings.engines)]
        self.workers = [WorkerHost(self, number) for number in range(settings.remote_workers)]
        self.clients = [Client(self, program) for program in self.programs]
        self.keeper = ScheduleKeeper(self)
        self.unserved = UnservedLoad(self)
        self.nemesis = Nemesis(self)
        self._buried: list[EngineWorker] = []

    def _program(self, author: Author, number: int) -> Step:
        stubborn = not self.settings.kinds and self._chance.random() < 0.06
        return author.stubborn(f"w{number}") if stubborn else author.program(f"w{number}")

    @property
    def living(self) -> list[EngineWorker]:
        """The workers of processes that run."""
        embedded = [worker for host in self.engines if host.node.alive for worker, _ in host.workers]
        return embedded + [host.worker for host in self.workers if host.worker is not None and host.node.alive]

    @property
    def timed_by(self) -> EngineHost | Database:
        """The machine whose wall clock schedules follow."""
        return self.database if self.settings.shared else self.engines[0]

    def wall(self) -> Time:
        """Return the wall clock that schedules follow."""
        return EPOCH + self.loop.now + self.timed_by.skew

    # what hosts ask for

    def worker(self, transport: Transport) -> EngineWorker:
        """Return a worker with this world's handlers."""
        worker = Worker(
            SimulatedClient(transport, self.app),
            max_concurrent_workflows=self.settings.task_hands,
            max_concurrent_activities=self.settings.activity_hands,
            max_cached_runs=self.settings.cached_runs,
            identity="simulated",
            drain_seconds=2.0,
        )
        return EngineWorker(transport, self.app, worker.options)

    def bury(self, node: Node, workers: list[EngineWorker]) -> None:
        """A process is dead; what it left in memory is kept, so that no finalizer runs before the end."""
        self.ledger.note(self.loop.now, f"{node} dies")
        self._buried.extend(workers)
        self.loop.crash(node)

    def later(self, delay: Time, action: Callable[[], None]) -> None:
        """Do something in the world after a while."""
        self.loop.post(self.node, delay, action)

    def restart_delay(self) -> Time:
        """How long it takes until a dead process is replaced."""
        return int(self._chance.choice((0.01, 0.1, 1.0, 4.0, 12.0)) * SECOND)

    def newest(self, workflow_id: str) -> RunId | None:
        """The newest run of an id, as the database has it."""
        chain = [row for row in self.database.tables.rows["runs"].values() if row[2] == workflow_id]
        return max(chain, key=lambda row: row[3])[0] if chain else None

    def is_over(self, workflow_id: str) -> bool:
        """Have an id and all that it descends from ended, so that nobody will ever wait under it?"""
        parts = workflow_id.split(".")
        family = [self.newest(".".join(parts[: length + 1])) for length in range(len(parts))]
        rows = self.database.tables.rows["runs"]
        known = [rows[(run_id,)] for run_id in family if run_id is not None]
        return bool(known) and all(row[RUN["closed_at"]] is not None for row in known)

    # one life

    def live(self) -> Outcome:
        """Run until everything is done, then look at what is left."""
        with self._seeded(), self._limited(), self._listening():
            try:
                self._live()
            except Stalled as stalled:
                self.ledger.violate(f"liveness: the world turns in circles: {stalled}")
            finally:
                outcome = self._outcome()
                self._dismantle()
        return outcome

    def _live(self) -> None:
        self.nemesis.plan()
        for engine in self.engines:
            engine.boot()
        for worker in self.workers:
            worker.boot()
        for client in self.clients:
            client.begin()
        self.keeper.begin()
        self.unserved.begin()
        heal_at = self.settings.fault_seconds * SECOND
        early = self.loop.run_until(self._finished, heal_at)
        self.nemesis.heal()
        if early or self.loop.run_until(self._finished, heal_at + self.settings.heal_seconds * SECOND):
            self.loop.run_until(lambda: bool(self.ledger.violations), self.loop.now + REST)
        self.handlers.swapping = False
        self.checks.final()

    def _finished(self) -> bool:
        if self.loop.steps % 64:
            return bool(self.ledger.violations)
        return bool(self.ledger.violations or self.loop.errors) or self._quiet()

    @property
    def others_busy(self) -> bool:
        """Whether a client or the keeper of schedules has anything left to do."""
        return self.keeper.busy or any(client.busy for client in self.clients)

    def _quiet(self) -> bool:
        if self.others_busy or self.unserved.busy:
            return False
        rows = self.database.tables.rows
        return not rows["outbox_messages"] and all(row[RUN["closed_at"]] is not None for row in rows["runs"].values())

    def _outcome(self) -> Outcome:
        tables = self.database.tables.rows
        return Outcome(
            seed=self.settings.seed,
            violations=tuple(self.ledger.violations),
            digest=self.database.digest(),
            seconds=self.loop.now / SECOND,
            steps=self.loop.steps,
            commits=self.database.commits,
            boots=self.ledger.boots,
            runs=len(tables["runs"]),
            events=sum(seq > 0 for _, seq in tables["events"]),
            trace=tuple(self.ledger.trace),
        )

    def _dismantle(self) -> None:
        for worker in (*self._buried, *self.living):
            for run in worker._workflow_tasks._live:
                run.execution.drop()
        self.loop.dismantle()

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """What the engine or a worker reports as an error is one: nothing here is anybody's mistake but theirs."""
        log = logging.getLogger("assay")
        before = log.propagate, log.level, list(log.handlers)
        log.propagate, log.handlers = False, [_Alarm(self.ledger)]
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.propagate, log.level, log.handlers = before

    def _limited(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which workers send no more commands in one message than the settings allow."""
        limits = msgspec.structs.replace(LIMITS, commands=self.settings.part_commands)
        return mock.patch.object(live_run, "LIMITS", limits)

    @contextlib.contextmanager
    def _seeded(self) -> Iterator[None]:
        """Ids and pauses that real code makes up by itself come from the seed, too."""
        chance, pauses = chance_of(self.settings.seed, "uuid"), chance_of(self.settings.seed, "pauses")
        with (
            mock.patch.object(uuid, "uuid4", lambda: uuid.UUID(int=chance.getrandbits(128), version=4)),  # noqa: PT008  # a new one each time
            mock.patch.object(reconnector, "random", pauses),
            mock.patch.object(reconnector, "HOLD_SECONDS", HOLD_SECONDS),
        ):
            yield


class _Alarm(logging.Handler):
    """Makes a violation of every error that is logged, but for runs that wait as they should."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.ERROR)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        if _is_stuck(record, self._ledger.swapped):
            return  # as it has to be: its code was one of another version
        if f": {PlannedBug.__name__}: " in record.getMessage():
            return
        error = record.exc_info[1] if record.exc_info else None
        self._ledger.violate(f"bug: {record.getMessage()}{'' if error is None else f': {error!r}'}")


def _is_stuck(record: logging.LogRecord, workflow_ids: set[str]) -> bool:
    """Does a worker report that one of these workflows no longer follows its history?"""
    facts = record.args
    return isinstance(facts, tuple) and facts[1:2] == ("non_determinism",) and facts[0] in workflow_ids


def simulate(settings: Settings, *, tracing: bool = False) -> Outcome:
    """Live through a seed."""
    return World(settings, tracing=tracing).live()
