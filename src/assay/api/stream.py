"""The event stream: Server-Sent Events with durable ids, resumed without a gap, bounded per client (wire 1.7, R40).

An id is the number of an event times 1,024; what is derived between two events takes a number between them.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from assay.api.answers import Header, always
from assay.api.call import Call, Send
from assay.core.errors import AssayError, Kind
from assay.core.ids import RunId, Time, seconds
from assay.core.schedule import Fire
from assay.engine.stream import Claimed, Entry, News, Stream, Unfired
from assay.wire.errors import Gone
from assay.wire.kinds import FIRED, RUNNING, facts_of, fire_of, kind_of

STEP: Final = 1_024
QUEUE_EVENTS: Final = 1_000
QUEUE_BYTES: Final = 1024 * 1024
KEEP_ALIVE: Final = 15.0
FAREWELL: Final = 1.0
REMEMBERED: Final = 256
"""Runs of which a client is known to have heard that they run."""
HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class TooManyStreams(AssayError):
    """No more streams can be open."""

    code = "too_many_streams"
    kind = Kind.RATE_LIMITED


class Wanted(msgspec.Struct, frozen=True):
    """Which events a client wants; an empty set stands for all."""

    namespaces: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    workflow_id: str | None = None
    nothing: bool = False
    """Only events of other subsystems, of which there are none."""

    def takes(self, namespace: str, workflow_id: str, kind: str) -> bool:
        """Is an event among them?"""
        if self.nothing or (self.namespaces and namespace not in self.namespaces):
            return False
        if self.workflow_id is not None and workflow_id != self.workflow_id:
            return False
        return not self.kinds or kind in self.kinds


class _Queue:
    """Frames that wait for one client; overflowing ends it, so that nobody's slowness costs memory."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._filled = asyncio.Event()
        self._running: OrderedDict[RunId, None] = OrderedDict()
        self._between = 0
        self._last = -1
        self.overflown = asyncio.Event()

    def put(self, news: News) -> None:
        """Take what is wanted."""
        if self.overflown.is_set():
            return
        for frame in self.frames(news):
            self._frames.append(frame)
            self._size += len(frame)
            self._filled.set()
        if len(self._frames) > QUEUE_EVENTS or self._size > QUEUE_BYTES:
            self.overflown.set()
            self._filled.set()

    async def take(self) -> bytes:
        """All frames that wait, or nothing after a while without any."""
        try:
            async with asyncio.timeout(KEEP_ALIVE):
                await self._filled.wait()
        except TimeoutError:
            return b""
        frames = b"".join(self._frames)
        self._frames.clear()
        self._size = 0
        self._filled.clear()
        return frames

    def frames(self, news: News) -> Iterator[bytes]:
        """What the client is told of some news."""
        if isinstance(news, Unfired):
            kind = f"schedule_{news.fire.outcome}"
            if self._takes(news, kind):
                yield _frame(news, kind, self._number_after(news.after), news.fire.fired_at, _unfired(news.fire))
            return
        if isinstance(news, Claimed):
            if self._first(news.run_id) and self._takes(news, RUNNING):
                yield _running_frame(news, news.time, self._number_after(news.after))
            return
        if news.begins_work and self._first(news.run_id) and self._takes(news, RUNNING):
            yield _running_frame(news, news.time, (news.id - 1) * STEP + STEP - 1)
        fire = fire_of(news.kind, news.data)
        if fire is not None and self._takes(news, FIRED):
            facts = {"workflow_id": news.workflow_id, "run_id": news.run_id, **fire}
            yield _frame(news, FIRED, (news.id - 1) * STEP + STEP - 1, news.time, facts)
        kind = kind_of(news.kind)
        if self._takes(news, kind):
            yield _event_frame(news, kind)

    def heard(self, run_id: RunId) -> None:
        """The client knows that a run is taken up."""
        self._first(run_id)

    def _takes(self, news: News, kind: str) -> bool:
        return self._wanted.takes(news.namespace, news.workflow_id, kind)

    def _first(self, run_id: RunId) -> bool:
        if run_id in self._running:
            return False
        self._running[run_id] = None
        if len(self._running) > REMEMBERED:
            self._running.popitem(last=False)
        return True

    def _number_after(self, event_id: int) -> int:
        self._between = min(self._between + 1, STEP - 2) if event_id == self._last else 1
        self._last = event_id
        return event_id * STEP + self._between


def _event_frame(entry: Entry, kind: str) -> bytes:
    facts = {"workflow_id": entry.workflow_id, "run_id": entry.run_id, **facts_of(entry.kind, entry.payload)}
    facts["event_seq"], facts["event"] = entry.seq, entry.kind
    return _frame(entry, kind, entry.id * STEP, entry.time, facts)


def _unfired(fire: Fire) -> dict[str, Any]:
    told = {"schedule": fire.schedule, "due_at": seconds(fire.due_at), "outcome": fire.outcome, "reason": fire.reason}
    return {**told, "trigger": fire.trigger, "until": None if fire.until is None else seconds(fire.until)}


def _running_frame(news: Entry | Claimed, time: Time, number: int) -> bytes:
    facts = {"workflow_id": news.workflow_id, "run_id": news.run_id, "task_queue": news.task_queue}
    return _frame(news, RUNNING, number, time, facts)


def _frame(news: News, kind: str, number: int, time: Time, facts: dict[str, Any]) -> bytes:
    data = {
        "id": number,
        "ts": seconds(time),
        "namespace": news.namespace,
        "subsystem": "workflow",
        "kind": kind,
        "event_type": kind,
        "workflow_id": news.workflow_id,
        "run_id": news.run_id,
        "workflow_type": news.workflow_type,
        "payload": {"namespace": news.namespace, **facts},
    }
    # JSON has no line breaks inside, and kinds are words: nothing a caller named can end a field (S34)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), msgspec.json.encode(data))


class EventStream:
    """An answer that goes on until one side has enough."""

    status = 200

    def __init__(self, stream: Stream, wanted: Wanted, after: int | None, drained: asyncio.Event) -> None:
        self._stream = stream
        self._after = None if after is None else after // STEP
        self._inner = 0 if after is None else after % STEP
        self._drained = drained
        self._queue = _Queue(wanted)

    async def begin(self) -> None:
        """Hear what happens from now on, before the client is told that it is connected; or say that it is too late."""
        if self._after is None:
            async for _ in self._stream.follow(None, self._queue.put):
                pass
        elif (oldest := await self._stream.oldest(self._after)) is not None:
            raise Gone("events after this id are no longer told: look up what was missed", oldest_id=oldest * STEP)

    async def send(self, call: Call, send: Send) -> None:
        """Send events until the client has gone, is too slow, or the engine stops."""
        await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, *always(HEADERS)]})
        talking = asyncio.ensure_future(self._talk(send))
        ends = [call.watch(), *map(asyncio.ensure_future, (self._drained.wait(), self._queue.overflown.wait()))]
        try:
            await asyncio.wait((talking, *ends), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stream.leave(self._queue.put)
            for task in (talking, *ends):
                task.cancel()
            await asyncio.gather(talking, *ends, return_exceptions=True)
        with contextlib.suppress(TimeoutError):  # a client that does not read does not hear the end either
            await asyncio.wait_for(send({"type": "http.response.body", "body": b"", "more_body": False}), FAREWELL)

    async def _talk(self, send: Send) -> None:
        await _say(send, b": connected\n\n")
        if self._after is not None:
            async for page in self._stream.follow(self._after, self._queue.put):
                told = b"".join(frame for entry in page for frame in self._past(entry))
                if told:
                    await _say(send, told)
        while True:
            frames = await self._queue.take()
            await _say(send, frames or b": keep-alive\n\n")

    def _past(self, entry: Entry) -> Iterator[bytes]:
        seen = self._inner == STEP - 1 and self._after == entry.id - 1
        if seen and entry.kind == "WorkflowStarted":
            return islice(self._queue.frames(entry), 1, None)  # the last frame before said what has started it
        if seen:
            self._queue.heard(entry.run_id)  # the last frame before said that this run is taken up
        return self._queue.frames(entry)


async def _say(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
