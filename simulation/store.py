"""The store of a simulated engine: real rules over tables in memory, and everything that can go wrong with a database.

A write commits, is refused, commits and says that it does not know, commits after its engine has lost the connection,
or takes its engine down just before or just after its commit. What is in the database survives all of that;
nothing else does.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, ClassVar, NoReturn, Protocol

from assay.core.engine_time import ClockReading, Jump, corrected
from assay.core.model.ids import SECOND, RunId, Time
from assay.storage.ports import (
    Changes,
    CommitStatus,
    Conflict,
    Demand,
    HeldLease,
    OutcomeUnknown,
    ReadyActivity,
    ReadyTask,
    Rejected,
)
from assay.storage.sql import queries
from assay.storage.sql.dialect import PostgresDialect
from assay.storage.sql.reads import SqlReads
from simulation.answers import ANSWERS
from simulation.loop import Node, SimLoop
from simulation.tables import Tables

EPOCH: Time = 1_700_000_000 * SECOND
RESERVATION_TIME: Time = 2 * SECOND
MAX_CLOCK_CHECKS, CLOCK_CHECK_SECONDS = 100, 0.05


class Witness(Protocol):
    """Whoever looks at every commit."""

    def committed(self, changes: Changes, now: Time, sent: Time) -> None:
        """These changes are durable now; their engine sent them at `sent`."""
        ...


class Trouble(Protocol):
    """Who decides what goes wrong at a store call; the answer is one of the words below."""

    def at_write(self) -> str:
        """`commit`, `reject`, `unknown`, `vanish`, `late`, `crash_before` or `crash_after`."""
        ...

    def lateness(self) -> Time:
        """Return how long after the loss of its connection a `late` COMMIT reaches the database."""
        ...

    def at_read(self) -> str:
        """`answer`, `reject` or `crash_before`."""
        ...

    def at_hint(self) -> bool:
        """Does a hint to another engine arrive?"""
        ...

    def latency(self) -> Time:
        """How long one way takes."""
        ...


class Database:
    """What outlives every engine, with a digest of all that was ever written."""

    def __init__(self, loop: SimLoop, witness: Witness, *, shared: bool) -> None:
        self.tables = Tables()
        self.shared = shared
        self.commits = 0
        self._loop = loop
        self._witness = witness
        self._digest = hashlib.sha256()
        self._node = Node("database")
        self.skew: Time = 0
        """How far its wall clock is off; steps change it."""
        self._correction = (0, 0)
        self._engines: list[Node] = []
        self._confirmed: dict[Node, Time] = {}
        """The wall times at which engines found the time right."""
        self.listeners: dict[Node, Callable[[], None]] = {}
        self.closed_listeners: dict[Node, Callable[[Collection[RunId] | None], None]] = {}

    def write(self, changes: Changes, sent: Time) -> frozenset[RunId]:
        """Execute a transaction that an engine sent at `sent`."""
        kept, lost = self.tables.write(changes)
        self.commits += 1
        for event in kept.events:
            self._digest.update(repr((event.run_id, event.seq, event.time, event.kind, event.payload)).encode())
        self._digest.update(repr((self._loop.now, len(kept.runs), sorted(kept.deadlines.items(), key=repr))).encode())
        self._witness.committed(kept, self._loop.now, sent)
        return lost

    def write_later(self, changes: Changes, sent: Time, delay: Time) -> "SimCommit":
        """Execute a transaction after a delay, whatever becomes of the engine that sent it."""
        commit = SimCommit(CommitStatus.IN_PROGRESS)
        self._loop.post(self._node, delay, self._write_late, changes, sent, commit)
        return commit

    def _write_late(self, changes: Changes, sent: Time, commit: "SimCommit") -> None:
        if commit.known is not CommitStatus.IN_PROGRESS:
            return
        try:
            commit.lost = self.write(changes, sent)
            commit.known = CommitStatus.COMMITTED
        except Conflict:
            commit.known = CommitStatus.ABORTED

    def engine_lives(self, node: Node) -> bool:
        """An engine that starts while no other lives drops the correction; here the clock is right by then."""
        if node in self._engines:
            return False
        alone = not any(other.alive for other in self._engines)
        if alone:
            self._correction, self.skew = (0, 0), 0
        self._engines.append(node)
        return alone

    def wall(self) -> Time:
        """Return the wall clock of the database."""
        return EPOCH + self._loop.now + self.skew

    def read_clock(self, jump: Jump | None = None) -> ClockReading:
        """Return the shared time, after a jump was taken out of its correction."""
        wall, took = self.wall(), False
        if jump is not None and jump.version == self._correction:
            self._correction, took = (corrected(wall, *self._correction) - jump.by - wall, wall), True
        living = [seen for node, seen in self._confirmed.items() if node.alive]
        confirmed_at = min(living, key=lambda seen: abs(seen - wall), default=0)
        return ClockReading(wall, corrected(wall, *self._correction), self._correction, took, confirmed_at=confirmed_at)

    def confirm(self, node: Node, reading: ClockReading, version: tuple[int, int]) -> None:
        """Note that an engine found the time of a reading right."""
        if reading.version == version:
            self._confirmed[node] = reading.wall

    def digest(self) -> str:
        """Equal for equal runs of the world."""
        return self._digest.hexdigest()


class SimCommit:
    """See `UnansweredCommit`; `travel` takes the time of a question, and fails as questions do."""

    def __init__(self, known: CommitStatus, lost: frozenset[RunId] = frozenset()) -> None:
        self.known = known
        self.lost = lost
        self.travel: Callable[[], Awaitable[None]] | None = None

    async def status(self) -> CommitStatus:
        """See `UnansweredCommit`."""
        if self.travel is not None:
            await self.travel()
        return self.known

    async def abort_if_idle(self) -> None:
        """See `UnansweredCommit`."""
        if self.travel is not None:
            await self.travel()
        if self.known is CommitStatus.IN_PROGRESS:
            self.known = CommitStatus.ABORTED


class SimStore(SqlReads):
    """One engine's connection to the database; dead when its engine is."""

    dialect: ClassVar[PostgresDialect] = PostgresDialect()

    def __init__(
        self,
        database: Database,
        node: Node,
        loop: SimLoop,
        trouble: Trouble,
        crash: Callable[[], None],
        *,
        inline: bool,
    ) -> None:
        self.shared = database.shared
        self.inline = inline
        self._database = database
        self._node = node
        self._loop = loop
        self._trouble = trouble
        self._crash = crash
        self._alone = False
        self._reading = ClockReading(0, 0)

    async def open(self) -> None:
        """See `Store`."""
        await self._travel()

    async def close(self) -> None:
        """See `Store`."""
        self._database.listeners.pop(self._node, None)
        self._database.closed_listeners.pop(self._node, None)

    async def clock(self, jump: Jump | None = None) -> ClockReading:
        """See `Store`."""
        await self._ask()
        self._alone = self._database.engine_lives(self._node) or self._alone
        if jump is not None and jump.by == 0:
            self._database.confirm(self._node, self._reading, jump.version)
        else:
            self._reading = self._database.read_clock(jump)._replace(alone=self._alone)
        await self._travel()
        return self._reading

    def subscribe(
        self, wake: Callable[[], None], closed: Callable[[Collection[RunId] | None], None] | None = None
    ) -> None:
        """See `Store`."""
        if self.shared:
            self._database.listeners[self._node] = wake
            if closed is not None:
                self._database.closed_listeners[self._node] = closed

    async def _travel(self) -> None:
        """Whatever is under way takes a while, unless the database is in this process."""
        if not self._node.alive:
            await self._loop.create_future()
        if not self.inline:
            await asyncio.sleep(self._trouble.latency() / SECOND)

    async def _die(self) -> None:
        self._crash()
        await self._loop.create_future()

    async def write(self, changes: Changes) -> frozenset[RunId]:
        """See `Store`."""
        sent = self._loop.now
        await self._travel()
        if self.shared and changes.not_before is not None:
            await self._wait_for_clocks(*changes.not_before)
        fate = self._trouble.at_write()
        if fate == "reject":
            raise Rejected("the simulated store has no room")
        if fate == "vanish":
            self._unanswered(SimCommit(CommitStatus.ABORTED))
        if fate == "late":
            self._unanswered(self._database.write_later(changes, sent, self._trouble.lateness()))
        if fate == "crash_before":
            await self._die()
        lost = self._database.write(changes, sent)
        self._hint([run_id for run_id in changes.closed if run_id not in lost])
        if fate == "crash_after":
            await self._die()
        await self._travel()
        if fate == "unknown":
            self._unanswered(SimCommit(CommitStatus.COMMITTED, lost))
        return lost

    def _unanswered(self, commit: SimCommit) -> NoReturn:
        """Raise as for a COMMIT without an answer; a store with one writer keeps no status of it."""
        unknown = OutcomeUnknown("the simulated store lost its answer")
        if self.shared:
            commit.travel = self._ask
            unknown.commit = commit
        raise unknown

    async def _wait_for_clocks(self, now: Time, wall: Time) -> None:
        """Wait as the real store does until the shared clocks have reached what was decided by them."""
        for _ in range(MAX_CLOCK_CHECKS):
            reading = self._database.read_clock()
            if reading.time >= now and reading.wall >= wall:
                return
            await asyncio.sleep(CLOCK_CHECK_SECONDS)
        raise Rejected("the simulated store's clock is behind")

    def _hint(self, closed: Collection[RunId]) -> None:
        for node, wake in self._database.listeners.items():
            if node is not self._node and self._trouble.at_hint():
                self._loop.post(node, self._trouble.latency(), wake)
        for node, listener in self._database.closed_listeners.items() if closed else ():
            if node is not self._node and self._trouble.at_hint():
                self._loop.post(node, self._trouble.latency(), listener, closed)

    async def numbers(self, count: int) -> int:
        """See `Store`."""
        await self._ask()
        first = self._database.tables.numbers
        self._database.tables.numbers += count
        return first

    async def ready_tasks(self, demands: Sequence[Demand], now: Time) -> Sequence[ReadyTask]:
        """See `Store`."""
        if not self.shared:
            return await super().ready_tasks(demands, now)
        found = await self._fetch(queries.RESERVE_TASKS, *self.dialect.demands(demands), now, now + RESERVATION_TIME)
        return [ReadyTask(*row) for row in found]

    async def ready_activities(self, demands: Sequence[Demand], now: Time) -> Sequence[ReadyActivity]:
        """See `Store`."""
        if not self.shared:
            return await super().ready_activities(demands, now)
        found = await self._fetch(
            queries.RESERVE_ACTIVITIES, *self.dialect.demands(demands), now, now + RESERVATION_TIME
        )
        return [ReadyActivity(*row) for row in found]

    async def local_leases(self) -> Sequence[HeldLease]:
        """See `Store`."""
        return () if self.shared else await super().local_leases()

    async def _ask(self) -> None:
        await self._travel()
        match self._trouble.at_read():
            case "reject":
                raise Rejected("the simulated store did not answer")
            case "crash_before":
                await self._die()

    async def _fetch(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        await self._ask()
        return ANSWERS[text](self._database.tables, *arguments)
