"""An engine on a real file whose time is made: the loop jumps to the next thing to do, so a year takes seconds."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from assay.core.model.ids import SECOND, RunId, Time
from assay.engine.engine import Engine
from assay.storage.ports import Changes
from assay.storage.sqlite.store import SqliteStore
from tests.core.schedules.schedule_support import MIDNIGHT

Result = TypeVar("Result")


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that never waits: with nothing to do now, it is at once the time of what comes next."""

    def __init__(self) -> None:
        super().__init__()
        self.virtual = 0.0
        self._clock_resolution = 1e-6  # after half a year the loop's own is lost in the rounding of its clock

    def time(self) -> float:
        return self.virtual

    def _run_once(self) -> None:
        timers = [timer for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        if timers and not self._ready:  # type: ignore[attr-defined]
            self.virtual = max(self.virtual, min(timer.when() for timer in timers))
        super()._run_once()  # type: ignore[misc]


class LoopClock:
    """The engine's clock, moved by the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> Time:
        return MIDNIGHT + round(self._loop.virtual * SECOND)

    def wall(self) -> Time:
        return self.now()

    def boot(self) -> Time:
        """Return a constant: the loop jumps, and is never absent."""
        return 0


class CountedStore(SqliteStore):
    """Counts what is asked of it, and gives no question to a thread: virtual time would not wait for that."""

    def __init__(self, path: Path, clock: Callable[[], Time]) -> None:
        super().__init__(path, in_thread=False, clock=clock)
        self.calls: Counter[str] = Counter()

    async def _fetch(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        self.calls[text] += 1
        return await super()._fetch(text, *arguments)

    async def query(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        return await self._fetch(text, *arguments)

    async def search(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        return await self._fetch(text, *arguments)

    async def write(self, changes: Changes) -> frozenset[RunId]:
        self.calls["write"] += 1
        return await super().write(changes)


def in_virtual_time(main: Callable[[VirtualLoop], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine to its end."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.close()


@asynccontextmanager
async def engine_on(
    path: Path, loop: VirtualLoop, *, only_time: bool = False
) -> AsyncIterator[tuple[Engine, CountedStore]]:
    """An engine at work; with `only_time` none of the services runs that would look a million times a year."""
    clock = LoopClock(loop)
    store = CountedStore(path, clock.now)
    engine = Engine(store, clock)
    await engine.start()
    if only_time:
        for service in ("outbox_relay", "clock"):
            await engine._loops[service].stop()
    try:
        yield engine, store
    finally:
        await engine.stop()
