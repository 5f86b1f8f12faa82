"""Engines in this process, with the services around them: an engine per SQLite file, or per client of Postgres.

Only a single engine may open a SQLite file. A second client of the same file uses the engine of the first; the engine
stops with its last client. Engines on Postgres share a database anyhow, and each client has an engine of its own.
"""

import asyncio
import os
from typing import Final

from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import SECOND, Time
from assay.embedded.local_workers import LocalWorkers
from assay.embedded.stores import store_for
from assay.engine.clock import Clock, SharedClock, SystemClock
from assay.engine.commit.cache import cache_bytes
from assay.engine.engine import Engine
from assay.engine.insight import Insight
from assay.engine.pruner import Pruner
from assay.engine.service import Loop
from assay.engine.worker_registry import MAIN, WorkerRegistry
from assay.storage.sql.leftovers import SqlLeftovers
from assay.storage.sql.overview import SqlOverview
from assay.storage.sql.registry import SqlRegistry
from assay.storage.urls import SqliteUrl, parse_url

PRUNE_AFTER: Final[Time] = 60 * SECOND
"""Time after the start of the engine before old rows are deleted: short programs leave this to longer ones."""
_by_file: dict[str, "HostedEngine"] = {}


class HostedEngine:
    """An engine on one event loop of this process, counted by the clients that use it."""

    def __init__(self, url: str) -> None:
        own = SystemClock()
        store = store_for(url, own.now)
        clock: Clock = SharedClock() if store.shared else own
        self.engine = Engine(store, clock, cache_bytes=cache_bytes(os.environ))
        self.worker_registry = WorkerRegistry(SqlRegistry(store), store, clock)
        self.engine.create_namespaces_with(self.worker_registry.ensure)
        self.insight = Insight(self.engine, self.worker_registry, SqlOverview(store))
        self.local_workers = LocalWorkers(self.worker_registry)
        self.heartbeats = Loop(self.local_workers, clock)
        pruning = Loop(Pruner(SqlLeftovers(store), clock, begins=clock.now() + PRUNE_AFTER), clock)
        self._loops = (pruning, self.heartbeats) if store.shared else (pruning,)
        self.workers: list[ConnectedWorker] = []
        self.owner = os.getpid(), asyncio.get_running_loop()
        self.stopped = False
        self._users = 0
        self._changing = asyncio.Lock()

    async def enter(self) -> bool:
        """Count a user, and start the engine for the first; return False if the engine has stopped meanwhile."""
        async with self._changing:
            if self.stopped:
                return False
            if self._users == 0:
                await self._start()
            self._users += 1
            return True

    async def leave(self) -> None:
        """Discount a user, and stop the engine with the last."""
        async with self._changing:
            self._users -= 1
            if self._users == 0:
                self.stopped = True
                try:
                    for loop in self._loops:
                        await loop.stop()
                    await self.engine.stop()
                finally:
                    self._forget()

    async def _start(self) -> None:
        try:
            await self.engine.start()
            await self.worker_registry.ensure(MAIN)
        except BaseException:
            self.stopped = True
            self._forget()
            await self.engine.stop()
            raise
        for loop in self._loops:
            loop.start()

    def _forget(self) -> None:
        for file, hosted in tuple(_by_file.items()):
            if hosted is self:
                del _by_file[file]


def hosted_engine(url: str) -> HostedEngine:
    """Return the engine of this loop on the file of `url`, or a new engine."""
    file = _file_of(url)
    if file is None:
        return HostedEngine(url)
    here = os.getpid(), asyncio.get_running_loop()
    found = _by_file.get(file)
    if found is None or found.owner != here:
        found = _by_file[file] = HostedEngine(url)
    return found


def other_loop(url: str) -> asyncio.AbstractEventLoop | None:
    """Return the loop of the engine that another thread of this process runs on the file of `url`, or None."""
    file = _file_of(url)
    found = None if file is None else _by_file.get(file)
    if found is None or found.owner[0] != os.getpid() or not found.owner[1].is_running():
        return None
    return None if found.owner[1] is asyncio._get_running_loop() else found.owner[1]


def _file_of(url: str) -> str | None:
    database = parse_url(url)
    return os.path.realpath(database.path) if isinstance(database, SqliteUrl) else None
