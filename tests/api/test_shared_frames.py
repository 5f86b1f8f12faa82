"""Frames of a row are made once, and all readers with one filter get the same bytes."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from assay.api import event_frames, shared_frames
from assay.api.shared_frames import EMPTY_CHUNK, SharedFrames, StreamFilter
from assay.api.stream import _Queue
from assay.core.model.ids import RunId
from assay.engine.stream import Claim, JournalEntry, JournalRow, Note

MAIN = StreamFilter(frozenset({"main"}))
OTHER = StreamFilter(frozenset({"other"}))
EVERYWHERE = StreamFilter()


def entry(row: int, namespace: str = "main", workflow_id: str = "a") -> JournalEntry:
    texts = (namespace, workflow_id, RunId("r"), "T", "default")
    return JournalEntry(0, row, *texts, 1, 0, "WorkflowStarted", b"null", None, 0)


def within_loop(check: Callable[[SharedFrames], None]) -> None:
    async def body() -> None:
        check(SharedFrames())

    asyncio.run(body())


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the frames whose bytes were made."""
    numbers: list[int] = []
    encode = event_frames._encoded

    def noting(frame: event_frames.StreamFrame) -> bytes:
        numbers.append(frame.number)
        return encode(frame)

    monkeypatch.setattr(event_frames, "_encoded", noting)
    return numbers


def test_readers_with_one_filter_share_bytes_and_all_share_frames(encoded: list[int]):
    page: Sequence[JournalRow] = [entry(1), entry(2, "other"), entry(3)]

    def check(shared: SharedFrames) -> None:
        found = [shared.chunk(page, StreamFilter(frozenset({"main"}))) for _ in range(490)]
        assert all(chunk is found[0] for chunk in found)
        every = shared.chunk(page, EVERYWHERE)
        assert (found[0].frames, every.frames) == (2, 3)
        assert found[0].encoded == b"%x\r\n%b\r\n" % (len(found[0].body), found[0].body)
        assert sorted(encoded) == [1_024, 2_048, 3_072]

    within_loop(check)


def test_rows_of_other_namespaces_are_not_made_into_frames(monkeypatch: pytest.MonkeyPatch):
    def unwanted(news: JournalRow) -> None:
        raise AssertionError("a frame that no reader needs")

    monkeypatch.setattr(shared_frames, "frames_of", unwanted)
    within_loop(lambda shared: _is(shared.chunk([entry(1)], OTHER), EMPTY_CHUNK))
    within_loop(lambda shared: _is(shared.chunk([entry(1)], StreamFilter(nothing=True)), EMPTY_CHUNK))


def _is(one: object, other: object) -> None:
    assert one is other


def test_a_note_concerns_the_namespaces_of_its_items():
    claim = Claim("other", "a", RunId("r"), "T", "default")
    page = [Note(0, 1, 0, (claim,))]
    within_loop(lambda shared: _is(shared.chunk(page, OTHER).frames, 1))
    within_loop(lambda shared: _is(shared.chunk(page, MAIN), EMPTY_CHUNK))


def test_a_page_is_forgotten_when_all_readers_were_called():
    async def body() -> None:
        shared = SharedFrames()
        shared.chunk([entry(1)], MAIN)
        await asyncio.sleep(0)
        assert (shared._page, shared._frames, shared._chunks) == (None, None, {})

    asyncio.run(body())


def test_frames_never_overtake_frames_that_wait_for_a_slow_client():
    async def body() -> None:
        queue, written, open_ = _Queue(SharedFrames(), MAIN, None), list[bytes](), True

        def push(chunk: bytes) -> bool:
            if open_:
                written.append(chunk)
            return open_

        queue.push = push
        rows = [[entry(number)] for number in range(1, 7)]
        bodies = [SharedFrames().chunk(page, MAIN).body for page in rows]
        queue.put(rows[0])
        assert [bodies[0] in chunk for chunk in written] == [True]
        open_ = False  # the client does not read
        queue.put(rows[1])
        open_ = True  # it reads again, but row 2 was not sent yet
        queue.put(rows[2])
        assert await queue.take() == bodies[1] + bodies[2]
        queue.put(rows[3])  # while rows 2 and 3 are being sent
        assert await queue.take() == bodies[3]
        taking = asyncio.ensure_future(queue.take())
        await asyncio.sleep(0)
        queue.put(rows[4])
        assert (len(written), bodies[4] in written[-1]) == (2, True)
        taking.cancel()

    asyncio.run(body())
