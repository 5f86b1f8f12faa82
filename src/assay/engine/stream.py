"""All events as one live stream: what is committed is read back from the journal and handed to whoever listens (I24).

The journal gives the order; a commit is only the hint to look. One reader serves all listeners. A listener that begins
in the past reads the journal by itself until it has caught up with that reader, and joins it with no step between.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import msgspec

from assay.core.errors import AssayError
from assay.core.ids import SECOND, RunId, Time
from assay.core.run import Run
from assay.core.schedule import Fire, FireOutcome
from assay.engine.clock import Clock
from assay.engine.commit import Committed, Committer
from assay.storage.journal import BEGINNING, Entry, Journal, Position
from assay.storage.store import Store

log = logging.getLogger("assay.engine")

__all__ = ["Claimed", "Entry", "News", "Stream", "Unfired"]

PAGE: Final = 500
RETENTION: Final[Time] = 3 * 24 * 3_600 * SECOND
"""How far back a client may go on, unless told otherwise; as in the original."""
UNFIRED: Final = 100
"""Due times of one commit that are told: after an outage there may be more than a client can take in."""
PATIENCE: Final = (0.05, 0.2, 1.0)
"""Seconds between two looks without a hint where other engines write: what is committed may not be readable yet."""


class Claimed(msgspec.Struct, frozen=True):
    """A worker has taken up a run for the first time; no event says so."""

    namespace: str
    workflow_id: str
    run_id: RunId
    workflow_type: str
    task_queue: str
    time: Time
    after: int
    """The id of the last event before."""


class Unfired(msgspec.Struct, frozen=True):
    """A due time of a schedule that started no run; a fire that did is in the first event of its run."""

    namespace: str
    fire: Fire
    after: int
    workflow_id: str = ""
    run_id: None = None
    workflow_type: None = None


News = Entry | Claimed | Unfired
Listener = Callable[[News], None]


class Stream:
    """Reads the journal while somebody listens."""

    def __init__(
        self, journal: Journal, store: Store, committer: Committer, clock: Clock, retention: Time = RETENTION
    ) -> None:
        self._journal = journal
        self._retention = retention
        self._shared = store.shared
        self._clock = clock
        self._listeners: dict[Listener, Position] = {}
        self._woken = asyncio.Event()
        self._claims: list[Run] = []
        self._unfired: list[Fire] = []
        self._position: Position = BEGINNING
        self._reader: asyncio.Task[None] | None = None
        committer.listen(self._committed)
        if store.shared:
            store.subscribe(self._woken.set)

    async def oldest(self, after: int) -> int | None:
        """None if all that came after an event can be told; else the id of the first event that can be.

        Histories are kept for good, but nobody is told those of weeks as news: what a client has missed for longer than
        the retention it must look up.
        """
        horizon = self._clock.now() - self._retention
        missed = await self._journal.after(await self._journal.position(after), 1)
        if not missed or missed[0].time >= horizon:
            return None
        found = await self._journal.since(horizon)
        return (await self._journal.head())[1] if found is None else found

    def __len__(self) -> int:
        return len(self._listeners)

    def _committed(self, committed: Committed) -> None:
        if self._listeners:
            self._claims.extend(committed.claimed)
            unfired = [fire for fire in committed.fires if fire.outcome is not FireOutcome.STARTED]
            self._unfired.extend(unfired[-UNFIRED:])
            self._woken.set()

    async def follow(self, after: int | None, listener: Listener) -> AsyncIterator[Sequence[Entry]]:
        """Pages of what came after the event with id `after`, nothing for None; then `listener` is called for the rest.

        Between the last page and the first call nothing is lost and nothing comes twice.
        """
        if after is None:
            position = await self._journal.head()
        else:
            position = await self._journal.position(after)
            while True:
                page = await self._journal.after(position, PAGE)
                if page:
                    yield page
                    position = page[-1].position
                if len(page) < PAGE and (self._reader is None or position >= self._position):
                    break
        self._join(listener, position)

    def _join(self, listener: Listener, position: Position) -> None:
        self._listeners[listener] = position
        if self._reader is None:
            self._position = position
            self._reader = asyncio.get_running_loop().create_task(self._read())
        self._woken.set()

    def leave(self, listener: Listener) -> None:
        """Nobody listens there any more; the last one to go ends the reading."""
        self._listeners.pop(listener, None)
        if not self._listeners and self._reader is not None:
            self._reader.cancel()
            self._reader = None

    async def _read(self) -> None:
        looks, own = 0, asyncio.current_task()
        while self._reader is own:
            self._woken.clear()
            try:
                await self._deliver(own)
            except AssayError as error:
                log.warning("the stream of events is interrupted: %s", error)
            pause = PATIENCE[min(looks, len(PATIENCE) - 1)] if self._shared else None
            looks += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()
                    looks = 0

    async def _deliver(self, own: "asyncio.Task[None] | None") -> None:
        claims, self._claims = self._claims, []
        unfired, self._unfired = self._unfired, []
        while page := await self._journal.after(self._position, PAGE):
            if self._reader is not own:
                return  # another one reads now, and two would tell everything twice
            for entry in page:
                self._position = entry.position
                self._tell(entry)
            if len(page) < PAGE:
                break
        for run in claims:
            self._tell(self._claimed(run))
        for fire in unfired:
            self._tell(Unfired(fire.namespace, fire, self._position[1]))

    def _claimed(self, run: Run) -> Claimed:
        start = run.start
        return Claimed(
            run.namespace,
            run.workflow_id,
            run.run_id,
            start.workflow_type,
            start.task_queue,
            self._clock.now(),
            self._position[1],
        )

    def _tell(self, news: News) -> None:
        for listener, since in tuple(self._listeners.items()):
            if isinstance(news, Claimed | Unfired) or news.position > since:
                listener(news)
