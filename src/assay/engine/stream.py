"""All events as a live stream: rows are read from the journal and passed to listeners (I24).

The journal has the order; a commit is only a hint to read. A single reader task serves all listeners and passes the
same page object to each, so that frames are made once. A listener that begins in the past reads the journal by itself
until it has caught up with the reader task. Then it joins without an await in between: no row is lost or sent twice.
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
STREAM_RETENTION: Final[Time] = 3 * 24 * 3_600 * SECOND
"""Default age up to which missed events can be resumed."""
RECHECK_SECONDS: Final = (0.05, 0.2, 1.0)
"""Pauses between reads without a hint on a shared store: committed rows of other engines may not be readable yet."""

PULSE_SECONDS: Final = 0.05
PULSE_SECONDS_PER_LISTENER: Final = 0.0001
"""Pause between two pages, per listener, at most `PULSE_SECONDS`. Many listeners get fewer and larger messages, and the
share of the engine's time spent on them does not grow with their number."""
FEW_LISTENERS: Final = 20
"""Up to this number of listeners there is no pause."""

Listener = Callable[[Sequence[JournalRow]], None]


class Stream:
    """The live stream of one engine; reads the journal while it has listeners."""

    def __init__(
        self,
        journal: EventJournal,
        store: Store,
        on_commit: Callable[[Callable[[Committed], None]], None],
        clock: Clock,
        retention: Time = STREAM_RETENTION,
    ) -> None:
        self._journal = journal
        self._retention = retention
        self._shared = store.shared
        self._clock = clock
        self._listeners: dict[Listener, Position] = {}
        self._woken = asyncio.Event()
        self._position: Position = BEGINNING
        self._held_since: Time | None = None
        """The time of the oldest durable event that must wait for an earlier transaction."""
        self._reader: asyncio.Task[None] | None = None
        on_commit(self._committed)
        if store.shared:
            store.subscribe(self._woken.set)

    async def too_late(self, row_id: int, namespaces: Collection[str]) -> int | None:
        """Return None if a client can resume after a row; otherwise the row id after which the stream can begin.

        A client that missed no events can resume with any cursor, however old. Events beyond the retention are not
        streamed: the client must read the histories. Rows of other namespaces do not count as missed. An empty
        collection means all namespaces.
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
        """Return the age of the oldest event held back for an earlier transaction; 0 if no event is held back."""
        return 0 if self._held_since is None else max(0, self._clock.now() - self._held_since)

    def __len__(self) -> int:
        return len(self._listeners)

    def _committed(self, _: Committed) -> None:
        if self._listeners:
            self._woken.set()

    async def follow(self, row_id: int | None, listener: Listener) -> AsyncIterator[Sequence[JournalRow]]:
        """Yield pages of the journal from a row on (None: from now on); then call `listener` with all later rows.

        Between the last page and the first call no row is lost and no row comes twice.
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
                # Caught up with the journal, and not behind the reader task: its next page follows this one.
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
        """Remove a listener; the reader task ends with the last one."""
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
                # With one writer no event is held back; after a hint, commits still arrive. Measure in pauses only.
                if self._shared and looks:
                    self._held_since = await self._journal.oldest_after(self._position)
                if len(self._listeners) > FEW_LISTENERS:
                    await asyncio.sleep(min(PULSE_SECONDS, len(self._listeners) * PULSE_SECONDS_PER_LISTENER))
            except AssayError as error:
                log.warning("the stream of events is interrupted: %s", error)
            pause = RECHECK_SECONDS[min(looks, len(RECHECK_SECONDS) - 1)] if self._shared else None
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
                    return  # all listeners left and others came: another task reads, and both would send every row
                self._position = part[-1].position
                self._pass(part)
                if isinstance(part[-1], Note):
                    await asyncio.sleep(0)  # a note may fill a client's queue: send it before the next row

    def _pass(self, part: Sequence[JournalRow]) -> None:
        """Call listeners with the rows after their positions, which nearly always are all rows."""
        first, last = part[0].position, part[-1].position
        for listener, since in tuple(self._listeners.items()):
            if first > since:
                listener(part)
            elif last > since:
                listener([news for news in part if news.position > since])


def _parts(page: Sequence[JournalRow]) -> Iterator[Sequence[JournalRow]]:
    """Yield the rows of a page in pieces, each up to and including a note; a page without notes is one piece."""
    begin = 0
    for place, news in enumerate(page):
        if isinstance(news, Note):
            yield page[begin : place + 1]
            begin = place + 1
    if begin < len(page):
        yield page[begin:] if begin else page
