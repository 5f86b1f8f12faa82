"""A world whose decisions are also written to a store, by the engine's own way from decisions to rows."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from assay.core.model.effects import Decision
from assay.core.model.events import Recorded
from assay.core.model.ids import RunId, Time
from assay.core.model.run import Run
from assay.engine.commit.batch import Batch
from assay.storage.ports import Changes, Demand
from assay.storage.postgres.store import PostgresStore
from assay.storage.sqlite.store import SqliteStore
from tests.core.support import MAIN, NOW, FixedIds, Step, World

AnyStore = SqliteStore | PostgresStore

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
MEMORY = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
"""Where a server keeps its data that forgets all of it anyway: it need not wait for a disk."""


class Stores:
    """One place for data: a file, or a database on a server; may be opened several times."""

    def __init__(self, place: Path | str, *, in_thread: bool | None = None) -> None:
        self.place = place
        self._in_thread = in_thread
        self._opened: list[AnyStore] = []

    @property
    def on_postgres(self) -> bool:
        return isinstance(self.place, str)

    def make(self, **options: Any) -> AnyStore:
        if isinstance(self.place, str):
            return PostgresStore(self.place, **options)
        return SqliteStore(self.place, **{"in_thread": self._in_thread, "clock": lambda: NOW, **options})

    async def open(self, **options: Any) -> AnyStore:
        store = self.make(**options)
        await store.open()
        self._opened.append(store)
        return store

    async def close(self) -> None:
        while self._opened:
            await self._opened.pop().close()


def wants(queue: str, kind: str | None = None, limit: int = 10) -> Demand:
    """Return a demand for work of one task queue, of all types unless one is named."""
    return Demand(MAIN, queue, kind, limit)


async def history(store: AnyStore, run_id: RunId) -> list[Recorded]:
    """A history as the decisions had it: its events have no numbers among those of all runs yet."""
    return [replace(recorded, id=0) for recorded in await store.events(run_id)]


class NamedIds(FixedIds):
    """Ids of one engine among several."""

    def __init__(self, name: str, numbers: int) -> None:
        super().__init__(numbers=numbers)
        self._name = name

    def run_id(self) -> RunId:
        return RunId(f"{self._name}{super().run_id()}")


class StoredWorld(World):
    """Decides as `World` does; `commit` writes what was decided since the last time."""

    def __init__(self, store: AnyStore, name: str = "", numbers: int = 100) -> None:
        super().__init__()
        self.store = store
        self.ids = NamedIds(name, numbers)
        self.batch = Batch()

    def keep(self, decision: Decision) -> None:
        self.batch.take(decision)
        for part in (decision, *decision.others):
            run = part.run
            self.runs[run.run_id] = run
            if run.workflow_id not in self.newest or self.newest[run.workflow_id].number < run.number:
                self.newest[run.workflow_id] = run
            self.histories.setdefault(run.run_id, []).extend(part.events)
            self._keep_effects(part.effects)

    def changes(self) -> Changes:
        """What there is to write; the next decisions begin anew."""
        self.batch.seal(self.now)
        batch, self.batch = self.batch, Batch()
        changes = batch.changes
        # An engine delivers a message after its commit; here a step may send and deliver in one transaction.
        at_once = {message.key for _, message, _ in changes.messages} & {key for _, key in changes.acknowledged}
        changes.messages = [entry for entry in changes.messages if entry[1].key not in at_once]
        changes.acknowledged = [entry for entry in changes.acknowledged if entry[1] not in at_once]
        return changes

    async def commit(self) -> frozenset[RunId]:
        return await self.store.write(self.changes())

    async def do(self, *steps: Step) -> "StoredWorld":
        """Let all of this happen, each step in a transaction of its own."""
        for step in steps:
            self.take(step)
            await self.commit()
        return self

    async def learn(self, *run_ids: RunId) -> None:
        """Know runs as the store has them."""
        for run in await self.store.load(run_ids, []):
            self.runs[run.run_id] = self.newest[run.workflow_id] = run


def as_stored(run: Run) -> dict[str, Any]:
    """A run's fields, without those that only live in memory."""
    fields = {name: getattr(run, name) for name in run.__struct_fields__}
    ignored = {"tail", "tail_bytes", "open_steps", *(("armed",) if run.closed else ())}
    return {name: value for name, value in fields.items() if name not in ignored}


async def reloaded(store: AnyStore, run: Run) -> dict[str, Any]:
    """The same of the run as the store has it."""
    (found,) = await store.load([run.run_id], [])
    return as_stored(found)


def at(seconds: float) -> Time:
    return NOW + int(seconds * 1_000_000)
