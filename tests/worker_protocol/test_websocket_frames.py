"""Frames are cut out of whatever pieces the network makes of them, and read and written as any WebSocket does."""

import random
import time
from typing import Any

import pytest
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from assay.worker_protocol.websocket_frames import Frames, framed, message_of

SIZES = (0, 1, 125, 126, 127, 65_535, 65_536, 200_000)


def general(data: bytes, *, masked: bool) -> Frame:
    """The one frame that the general parser finds in bytes."""
    reader = StreamReader()
    reader.feed_data(data)
    parsing: Any = Frame.parse(reader.read_exact, mask=masked)
    try:
        next(parsing)
    except StopIteration as done:
        found: Frame = done.value
        return found
    raise AssertionError("the frame is not whole")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_what_is_written_here_any_websocket_reads(size: int, masked: bool) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    frame = general(framed(body, masked=masked), masked=masked)
    assert (frame.opcode, frame.fin, bytes(frame.data)) == (Opcode.BINARY, True, body)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_what_any_websocket_writes_is_read_here(size: int, masked: bool) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    written = Frame(Opcode.BINARY, body).serialize(mask=masked)
    ((frame, head),) = Frames(None).cut(written)
    assert message_of(frame, head, masked=masked) == body


@pytest.mark.parametrize("seed", range(40))
def test_pieces_of_any_size_give_the_same_frames(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  # the same on every run
    bodies = [chance.randbytes(chance.choice((0, 3, 125, 126, 400, 70_000))) for _ in range(8)]
    stream = b"".join(framed(body, masked=True) for body in bodies)
    frames, found = Frames(None), []
    while stream:
        piece = chance.choice((1, 2, 3, 5, 130, 5_000, 100_000))
        found += list(frames.cut(stream[:piece]))
        stream = stream[piece:]
    assert [message_of(frame, head, masked=True) for frame, head in found] == bodies


@pytest.mark.parametrize(
    "frame",
    [
        Frame(Opcode.TEXT, b"{}"),
        Frame(Opcode.BINARY, b"half", fin=False),
        Frame(Opcode.CONT, b"the rest"),
        Frame(Opcode.PING, b"there?"),
        Frame(Opcode.CLOSE, b"\x03\xe8"),
    ],
)
def test_all_but_whole_binary_messages_is_left_to_others(frame: Frame) -> None:
    ((whole, head),) = Frames(None).cut(frame.serialize(mask=True))
    assert message_of(whole, head, masked=True) is None


def test_a_frame_that_should_be_masked_and_is_not_is_left_to_others() -> None:
    ((frame, head),) = Frames(None).cut(framed(b"plain", masked=False))
    assert message_of(frame, head, masked=True) is None


def test_a_frame_above_the_limit_comes_at_once_and_is_not_read() -> None:
    ((frame, head),) = Frames(100).cut(framed(b"x" * 101, masked=True)[:20])
    assert (len(frame), head) == (20, 0)
    assert message_of(frame, head, masked=True) is None


@pytest.mark.quiet
def test_many_small_frames_cost_as_much_as_their_number() -> None:
    stream = framed(b"", masked=True) * 200_000  # as one read; a copy of the rest for each frame takes 10 seconds
    began = time.process_time()
    assert len(Frames(None).cut(stream)) == 200_000
    assert time.process_time() - began < 2


def test_the_bytes_of_an_incomplete_frame_are_counted() -> None:
    frames, frame = Frames(None), framed(b"x" * 1_000, masked=True)
    assert (frames.cut(frame[:100]), frames.partial_bytes) == ([], 100)
    assert (len(frames.cut(frame[100:])), frames.partial_bytes) == (1, 0)
