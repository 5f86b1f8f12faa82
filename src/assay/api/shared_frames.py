"""Frames of the newest journal page, encoded once for all readers of the event stream."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from assay.api.event_frames import StreamFrame, body_of, frames_of
from assay.engine.stream import JournalRow, Note


class StreamFilter(msgspec.Struct, frozen=True):
    """The filter of a reader; an empty set means all."""

    namespaces: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    workflow_id: str | None = None
    nothing: bool = False
    """Pass no frame: the reader has selected other subsystems only."""

    def takes(self, frame: StreamFrame) -> bool:
        """Return whether a frame passes the filter."""
        if self.nothing or (self.namespaces and frame.namespace not in self.namespaces):
            return False
        if self.workflow_id is not None and frame.workflow_id != self.workflow_id:
            return False
        return not self.kinds or frame.kind in self.kinds


class Chunk(NamedTuple):
    """Frames for all readers with the same filter."""

    body: bytes
    frames: int
    encoded: bytes
    """The body as a chunk of a chunked HTTP response."""


EMPTY_CHUNK: Final = Chunk(b"", 0, b"")


def chunk_of(frames: Sequence[StreamFrame]) -> Chunk:
    """Return frames joined to a chunk."""
    if not frames:
        return EMPTY_CHUNK
    body = b"".join(map(body_of, frames))
    return Chunk(body, len(frames), b"%x\r\n%b\r\n" % (len(body), body))


class SharedFrames:
    """Chunks of the current page by filter.

    All readers are called with the same page object within a loop iteration: the chunk of a filter is built for its
    first reader, and all further readers get the same bytes.
    """

    def __init__(self) -> None:
        self._page: Sequence[JournalRow] | None = None
        self._frames: list[StreamFrame] | None = None
        self._namespaces: set[str] = set()
        self._chunks: dict[StreamFilter, Chunk] = {}
        self._rows: frozenset[int] = frozenset()

    def chunk(self, page: Sequence[JournalRow], wanted: StreamFilter) -> Chunk:
        """Return the frames of a page that pass a filter."""
        if page is not self._page:
            self._begin(page)
        found = self._chunks.get(wanted)
        if found is None:
            found = self._chunks[wanted] = self._chunk(page, wanted)
        return found

    def _chunk(self, page: Sequence[JournalRow], wanted: StreamFilter) -> Chunk:
        if wanted.nothing or (wanted.namespaces and wanted.namespaces.isdisjoint(self._namespaces)):
            return EMPTY_CHUNK  # without encoding: rows of other namespaces cost these readers nothing
        if self._frames is None:
            self._frames = [frame for news in page for frame in frames_of(news)]
        return chunk_of([frame for frame in self._frames if wanted.takes(frame)])

    def has_row(self, page: Sequence[JournalRow], row_id: int) -> bool:
        """Return whether a row is in a page."""
        if page is not self._page:
            self._begin(page)
        return row_id in self._rows

    def _begin(self, page: Sequence[JournalRow]) -> None:
        if self._page is None:
            asyncio.get_running_loop().call_soon(
                self._forget
            )  # free the page: it may be large, and the next page may be far away
        self._page = page
        self._frames = None
        self._namespaces = {name for news in page for name in _namespaces_of(news)}
        self._chunks = {}
        self._rows = frozenset(news.id for news in page)

    def _forget(self) -> None:
        self._page, self._frames, self._chunks, self._rows = None, None, {}, frozenset()


def _namespaces_of(news: JournalRow) -> Iterable[str]:
    if isinstance(news, Note):
        return [*(claim.namespace for claim in news.claims), *(fire.namespace for fire in news.fires)]
    return (news.namespace,)
