"""All events as one live stream: rows are read from the journal and passed to listeners (I24).

The journal gives the order; a commit is only the hint to look. One reader serves all listeners, and passes the same
page object to all of them. A listener that begins in the past reads the journal by itself until it has caught up with
that reader, and joins it with no step between.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from typing import Final

from assay.core.model.errors import AssayError
from assay.core.model.ids import SECOND, Time
from assay.engine.clock import Clock
from assay.engine.commit.committer import Committed
from assay.storage.ports import BEGINNING, Claim, EventJournal, JournalEntry, JournalRow, Note, Position, Store

log = logging.getLogger("assay.engine")

__all__ = ["Claim", "JournalEntry", "JournalRow", "Note", "Stream"]

STREAM_PAGE_EVENTS: Final = 500
RETENTION: Final[Time] = 3 * 24 * 3_600 * SECOND
"""How far back a client may go on, unless told otherwise; as in the original."""
PATIENCE: Final = (0.05, 0.2, 1.0)
"""Seconds between two looks without a hint where other engines write: what is committed may not be readable yet."""

PULSE_SECONDS: Final = 0.05
PULSE_SECONDS_PER_LISTENER: Final = 0.0001
"""Between two pages for many listeners: each gets fewer and larger messages, and all of them together cost the engine a
share of its time that does not grow with their number. The first is the most that rows wait."""
FEW_LISTENERS: Final = 20
"""Listeners that get each commit at once."""

Listener = Callable[[Sequence[JournalRow]], None]


class Stream:
    """Reads the journal while somebody listens."""

    def __init__(
        self,
        journal: EventJournal,
        store: Store,
        on_commit: Callable[[Callable[[Committed], None]], None],
        clock: Clock,
        retention: Time = RETENTION,
    ) -> None:
        self._journal = journal
        self._retention = retention
        self._shared = store.shared
        self._clock = clock
        self._listeners: dict[Listener, Position] = {}
        self._woken = asyncio.Event()
        self._position: Position = BEGINNING
        self._held_since: Time | None = None
        """The time of the oldest event that is durable and cannot be sent in order yet."""
        self._reader: asyncio.Task[None] | None = None
        on_commit(self._committed)
        if store.shared:
            store.subscribe(self._woken.set)

    async def too_late(self, row_id: int, namespaces: Collection[str]) -> int | None:
        """None if all that came after a row can be told; else the id of the row from after which it can be.

        Histories are kept for good, but nobody is told those of weeks as news: what a client has missed for longer than
        the retention it must look up. Only what is of its namespaces it can have missed; none stand for all.
        """
        horizon = self._clock.now() - self._retention
        position = await self._journal.position(row_id)
        missed = await self._journal.after(position, 1)
        if not missed or missed[0].time >= horizon:
            return None
        first = await self._journal.since(horizon)
        if namespaces and not await self._journal.concerns(namespaces, position, first):
            return None
        return (await self._journal.head())[1] if first is None else first - 1

    def lag(self) -> Time:
        """Return the age of the oldest event that waits for an earlier transaction; 0 if no event waits."""
        return 0 if self._held_since is None else max(0, self._clock.now() - self._held_since)

    def __len__(self) -> int:
        return len(self._listeners)

    def _committed(self, _: Committed) -> None:
        if self._listeners:
            self._woken.set()

    async def follow(self, row_id: int | None, listener: Listener) -> AsyncIterator[Sequence[JournalRow]]:
        """Pages of the journal from the row with this id on, none for None; then `listener` is called for the rest.

        Between the last page and the first call nothing is lost and nothing comes twice.
        """
        if row_id is None:
            position = await self._journal.head()
        else:
            transaction, found = await self._journal.position(row_id)
            position = transaction, found - 1 if found == row_id else found
            while True:
                page = await self._journal.after(position, STREAM_PAGE_EVENTS)
                if page:
                    yield page
                    position = page[-1].position
                if not page.more and (self._reader is None or position >= self._position):
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
            self._reader = self._held_since = None

    async def _read(self) -> None:
        looks, own = 0, asyncio.current_task()
        while self._reader is own:
            self._woken.clear()
            try:
                await self._deliver(own)
                # One writer leaves no gaps, and a hint means that commits arrive: only a pause is worth a look.
                if self._shared and looks:
                    self._held_since = await self._journal.oldest_after(self._position)
                if len(self._listeners) > FEW_LISTENERS:
                    await asyncio.sleep(min(PULSE_SECONDS, len(self._listeners) * PULSE_SECONDS_PER_LISTENER))
            except AssayError as error:
                log.warning("the stream of events is interrupted: %s", error)
            pause = PATIENCE[min(looks, len(PATIENCE) - 1)] if self._shared else None
            looks += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()
                    looks = 0

    async def _deliver(self, own: "asyncio.Task[None] | None") -> None:
        more = True
        while more:
            page = await self._journal.after(self._position, STREAM_PAGE_EVENTS)
            more = page.more
            for part in _parts(page):
                if self._reader is not own:
                    return  # another task reads now, and both would deliver every row
                self._position = part[-1].position
                self._pass(part)
                if isinstance(part[-1], Note):
                    await asyncio.sleep(0)  # a note may fill the queue of a client: have it sent before the next row

    def _pass(self, part: Sequence[JournalRow]) -> None:
        """Call listeners with the rows after their positions; nearly always these are all rows."""
        first, last = part[0].position, part[-1].position
        for listener, since in tuple(self._listeners.items()):
            if first > since:
                listener(part)
            elif last > since:
                listener([news for news in part if news.position > since])


def _parts(page: Sequence[JournalRow]) -> Iterator[Sequence[JournalRow]]:
    """Return the rows of a page in pieces that end with a note; a page without notes is one piece."""
    begin = 0
    for place, news in enumerate(page):
        if isinstance(news, Note):
            yield page[begin : place + 1]
            begin = place + 1
    if begin < len(page):
        yield page[begin:] if begin else page
