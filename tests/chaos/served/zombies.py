"""Workers that are stopped for two leases, then report work that other workers have done meanwhile.

Each zombie is two processes: a worker of our SDK that runs an activity and an inline step, and one of the original
protocol that holds a task and an attempt. All of it is taken over by heirs; not one late report may change anything.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import assay
from assay.testing.replay import replay_history
from tests.api.support import Http, complete
from tests.api.support import Worker as Original
from tests.api.support import activity as scheduled
from tests.chaos.evidence import Evidence, gather
from tests.chaos.report import Report, violations
from tests.chaos.served.holder import HOLDS, LATE, REPORTS
from tests.chaos.verdict import duplicated, stuck, two_outcomes
from tests.http import program
from tests.http.processes import READY, Process, Server, server

LEASE = 10.0
PATIENCE = 60.0
REFUSED = re.compile(r"refused: report \d+, (\w+) (\w+)")
STATUS = re.compile(rf"^{LATE} (\d+)$", re.MULTILINE)
STALE = {("CONFLICT", "stale_task"), ("CONFLICT", "stale_attempt")}
CONFLICT = "409"
MORNING = "morning"
"""The signal that ends the runs: until then they are open, and nothing but the fence keeps a late report out."""

OUTCOMES = {"Slow": "ActivityCompleted", "Patient": "StepCompleted"}
"""What the workflows do under the hands of a zombie."""

Order = dict[str, Any]


@dataclass(frozen=True)
class Night:
    """How many zombies, how many of them at once, and for how long they sleep."""

    store: str
    database: str
    folder: Path
    zombies: int
    at_once: int = 10
    asleep: float = 2 * LEASE


@dataclass
class Findings:
    """What the zombies were told, and what the runs say."""

    refused: int = 0
    not_refused: list[str] = field(default_factory=list)
    stale_accepted: list[str] = field(default_factory=list)
    useless: list[str] = field(default_factory=list)
    """Zombies that do no more work after they woke."""
    slow_stops: list[str] = field(default_factory=list)


class Zombie:
    """One pair of processes with a queue for each."""

    def __init__(self, name: str, engine: Server, folder: Path) -> None:
        self.name = name
        self.queue = f"queue-{name}"
        self.original = f"original-{name}"
        self.pid = 0
        self._engine = engine
        self._folder = folder
        self._processes: list[Process] = []

    async def rise(self, client: assay.Client) -> None:
        """Start it, and wait until it has its hands full."""
        await asyncio.to_thread(self._prepare)
        arguments = [self._engine.url, str(self._folder), f"queue={self.queue}"]
        worker = Process(["-m", "tests.http.program", *arguments], self._folder / f"{self.name}.log")
        command = ["-m", "tests.chaos.served.holder", str(self._engine.port), self.original]
        holder = Process(command, self._folder / f"{self.original}.log", with_stdin=True)
        self._processes, self.pid = [worker, holder], worker.pid
        await asyncio.to_thread(worker.wait_for, READY)
        for kind in OUTCOMES:
            order: Order = {"id": f"{kind}-{self.name}", "seconds": 1.0, "until": MORNING}
            await client.start(kind, order, workflow_id=order["id"], task_queue=self.queue)
        await until(lambda: len(self.lines("begin")) == 2)
        await asyncio.to_thread(holder.wait_for, re.compile(HOLDS))

    def _prepare(self) -> None:
        """Two runs for the original: one with a task that is due, one with an activity that is."""
        limits: dict[str, Any] = {"start_to_close_secs": LEASE, "max_attempts": 5, "initial_interval_secs": 0.1}
        with self._another() as opener:
            opener.http.start(f"attempt-{self.name}", task_queue=self.original)
            opener.turn(f"attempt-{self.name}", scheduled(task_queue=self.original, **limits))
            opener.http.start(f"task-{self.name}", task_queue=self.original)

    @contextmanager
    def _another(self) -> Iterator[Original]:
        """Another worker of the original protocol on the same queue."""
        with closing_connections(self._engine.port) as http:
            yield Original(http, self.original)

    def sleep(self) -> None:
        """SIGSTOP."""
        for process in self._processes:
            process.pause()

    def wake(self) -> None:
        """SIGCONT."""
        self._processes[1].write_line("wake")
        for process in self._processes:
            process.resume()

    def lines(self, what: str) -> list[list[str]]:
        """What the worker has done, by its own ledger."""
        return [line for line in program.Ledger(self._folder / "ledger").lines() if line[0] == what and self._is(line)]

    def _is(self, line: list[str]) -> bool:
        return line[-1] == str(self.pid) and line[1].endswith(f"-{self.name}")

    def claim(self) -> None:
        """Take the original's part as another worker, and hold it: only the fence tells the two apart now (I7, I8)."""
        with self._another() as heir:
            task, attempt = heir.task(wait_secs=20), heir.activity(wait_secs=20)
        assert task is not None
        assert attempt is not None
        self._heir, self._claimed = heir, (task, attempt)

    def finish(self) -> None:
        """Do what was claimed: it must still be the heir's to do."""
        task, attempt = self._claimed
        with closing_connections(self._engine.port) as http:
            heir = self._heir
            heir.http = http
            assert heir.commands(task["workflow_id"], complete("heir")).status == 200
            assert heir.complete(attempt, "heir").status == 200
            last = heir.task(wait_secs=20)
            assert last is not None
            assert heir.commands(last["workflow_id"], complete("heir")).status == 200

    async def answers(self) -> list[str]:
        """What its late reports were answered, once there is an answer to all."""
        worker, holder = self._processes
        await until(lambda: len(self.lines("end")) == 2 and set(REFUSED.findall(worker.log_text())) >= STALE)
        await until(lambda: len(STATUS.findall(holder.log_text())) == REPORTS)
        refusals = [CONFLICT if kind == "CONFLICT" else code for kind, code in REFUSED.findall(worker.log_text())]
        return refusals + STATUS.findall(holder.log_text())

    async def end(self) -> list[str]:
        """Stop it; what is wrong with how it ends."""
        code = await asyncio.to_thread(self._processes[0].stop)
        self.abandon()
        return [] if code == 0 else [f"{self.name}: exit code {code}"]

    def abandon(self) -> None:
        """Leave no process behind."""
        for process in self._processes:
            process.end()


@contextmanager
def closing_connections(port: int) -> Iterator[Http]:
    """Plain HTTP for the time of the block."""
    opened: list[HTTPConnection] = []
    try:
        yield Http(port, opened)
    finally:
        for connection in opened:
            connection.close()


async def until(ready: Callable[[], bool]) -> None:
    """What another process does can only be watched."""
    end = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.05)


class Watch:
    """One night after the other, until all zombies have had theirs."""

    def __init__(self, night: Night, engine: Server, client: assay.Client) -> None:
        self._night = night
        self._engine = engine
        self._client = client
        self.found = Findings()

    async def run(self) -> None:
        """All zombies."""
        names = [f"z{number}" for number in range(self._night.zombies)]
        for first in range(0, len(names), self._night.at_once):
            zombies = [
                Zombie(name, self._engine, self._night.folder) for name in names[first : first + self._night.at_once]
            ]
            try:
                await self._haunt(zombies)
            finally:
                for zombie in zombies:
                    zombie.abandon()

    async def _haunt(self, zombies: list[Zombie]) -> None:
        for zombie in zombies:
            await zombie.rise(self._client)
            zombie.sleep()
        asleep = asyncio.create_task(asyncio.sleep(self._night.asleep))
        async with self._heirs(zombies):
            for zombie in zombies:
                await self._inherited(zombie)
        await asleep
        await asyncio.gather(*(asyncio.to_thread(zombie.claim) for zombie in zombies))
        for zombie in zombies:
            zombie.wake()
        for zombie in zombies:
            await self._judge(zombie)

    @asynccontextmanager
    async def _heirs(self, zombies: list[Zombie]) -> AsyncIterator[None]:
        heirs = [assay.Worker(self._client, zombie.queue, app=program.app) for zombie in zombies]
        running = [asyncio.create_task(heir.run()) for heir in heirs]
        yield
        for heir in heirs:
            heir.stop()
        await asyncio.gather(*running)

    async def _inherited(self, zombie: Zombie) -> None:
        """Until both runs have gone on without the zombie."""
        for kind, outcome in OUTCOMES.items():
            while outcome not in [event.event_type for event in await self._client.get_events(f"{kind}-{zombie.name}")]:
                await asyncio.sleep(0.1)

    async def _judge(self, zombie: Zombie) -> None:
        answers = await zombie.answers()
        self.found.refused += answers.count(CONFLICT)
        self.found.not_refused += [f"{zombie.name}: {answer}" for answer in answers if answer != CONFLICT]
        await asyncio.to_thread(zombie.finish)
        for kind in OUTCOMES:
            await self._client.signal(f"{kind}-{zombie.name}", MORNING, {"nonce": zombie.name})
            result: Any = await self._client.result(f"{kind}-{zombie.name}")
            if (result.split()[-1] if kind == "Slow" else result[0]) == str(zombie.pid):
                self.found.stale_accepted.append(f"{kind}-{zombie.name} was done by the zombie")
        await self._employ(zombie)
        self.found.slow_stops += await zombie.end()

    async def _employ(self, zombie: Zombie) -> None:
        """It lost what it held, not its place: new work is done as before."""
        order: Order = {"id": f"Again-{zombie.name}", "seconds": 0.0}
        again = await self._client.run("Slow", order, workflow_id=order["id"], task_queue=zombie.queue)
        if again != f"{order['id']} by {zombie.pid}":
            self.found.useless.append(f"{zombie.name}: {again}")


def run(night: Night) -> Report:
    """Run the scenario and judge what it left behind."""
    began = time.monotonic()
    with server(night.folder, night.database, ASSAY_WF_DISPATCH_TIMEOUT_SECS=f"{LEASE:g}") as engine:
        found = asyncio.run(_watched(night, engine))
        assert engine.process.stop() == 0
    evidence = asyncio.run(gather(night.database, night.folder, 1))
    report = Report(f"{night.store} zombie workers")
    report.facts = {"zombies": night.zombies, "runs": len(evidence.stories), "refused_409": found.refused}
    report.wrong = {
        "stale_accepted": [*found.stale_accepted, *_done_by_zombies(evidence)],
        "not_refused": found.not_refused,
        "useless": found.useless,
        "lost": [f"{5 * night.zombies - len(evidence.stories)} runs"] * (5 * night.zombies != len(evidence.stories)),
        "dup": list(duplicated(evidence, [])),
        "two_outcomes": list(two_outcomes(evidence, [])),
        "unfaithful": list(_unfaithful(evidence)),
        "stuck": list(stuck(evidence, [])),
        "violations": violations(night.database),
        "slow_stops": found.slow_stops,
    }
    report.measures = {"asleep": f"{night.asleep:g}s", "seconds": f"{time.monotonic() - began:.0f}"}
    return report


async def _watched(night: Night, engine: Server) -> Findings:
    program.ledger = program.Ledger(night.folder / "ledger")
    async with await assay.Client.connect(engine.url, app=program.app) as client:
        watch = Watch(night, engine, client)
        await watch.run()
    return watch.found


def _done_by_zombies(evidence: Evidence) -> list[str]:
    """What the original's runs recorded must be the heirs' doing."""
    return [
        f"{story.record.id}: {event.event_type} {event.payload}"
        for story in evidence.stories
        for event in story.of("ActivityCompleted", "WorkflowCompleted")
        if "zombie" in str(event.payload)
    ]


def _unfaithful(evidence: Evidence) -> list[str]:
    found = []
    for story in evidence.stories:
        if story.history.workflow_type in program.app.workflows:
            try:
                replay_history(story.history, program.app)
            except assay.NonDeterminismError as error:
                found.append(f"{story.record.id}: {error}")
    return found
