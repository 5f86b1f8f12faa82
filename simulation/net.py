"""The network between nodes: messages are lost, late, doubled and out of order, and links are cut for a while.

A call whose request or answer is lost ends as `Unavailable` after a time-out: the caller cannot know (I3).
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from assay.core.model.errors import Unavailable
from assay.core.model.ids import SECOND, Time
from simulation.loop import Node, SimLoop
from simulation.settings import Settings, chance_of

STOOD_STILL: Time = SECOND
PATIENCE = 4.0
"""Seconds that a caller waits for an answer."""


class Host(Protocol):
    """A machine with a name, whatever process runs on it at present."""

    name: str

    @property
    def node(self) -> Node:
        """The process."""
        ...


Operation = Callable[[], "asyncio.Future[Any]"]


class Network:
    """Carries messages; `calm` makes it perfect."""

    def __init__(self, loop: SimLoop, settings: Settings) -> None:
        self.calm = False
        self.cut: set[str] = set()
        self._loop = loop
        self._settings = settings
        self._chance = chance_of(settings.seed, "net")

    def carry(self, source: Host, target: Host, deliver: Callable[..., object], *args: Any, once: bool = False) -> None:
        """Send a message, with whatever happens to it on the way."""
        if source.name in self.cut or target.name in self.cut or self._happens("lose", 0.04):
            return
        latency = self._latency()
        self._loop.post(target.node, latency, self._arrive, target.node, self._loop.now + latency, deliver, args)
        if not once and self._happens("repeat", 0.05):
            late = int(self._chance.random() ** 3 * 20 * SECOND)
            self._loop.post(target.node, self._latency() + late, deliver, *args)

    def _arrive(self, node: Node, due: Time, deliver: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Deliver a message; what came while the process stood still it reads after it has seen to its timers."""
        if self._loop.now - due > STOOD_STILL:
            self._loop.post(node, int(self._chance.random() * SECOND / 50), deliver, *args)
        else:
            deliver(*args)

    def _happens(self, fault: str, rate: float) -> bool:
        return not self.calm and self._settings.has(fault) and self._chance.random() < rate

    def _latency(self) -> Time:
        if self._happens("delay", 0.05):
            return int(self._chance.random() ** 2 * 8 * SECOND)
        return int(100 + self._chance.random() * 2_000)

    def call(self, source: Host, target: Host, operation: Operation, *, once: bool = False) -> "asyncio.Future[Any]":
        """Have something done at the target and hear how it went, or that nobody knows; `once` if it has no key."""
        future: asyncio.Future[Any] = self._loop.create_future()
        expire = self._loop.call_later(PATIENCE, _expire, future)
        future.add_done_callback(lambda _: expire.cancel())
        if target.node.alive:
            self.carry(source, target, self._serve, source, target, operation, future, once=once)
        else:
            self._loop.post(source.node, self._latency(), _expire, future)
        return future

    def _serve(self, source: Host, target: Host, operation: Operation, future: "asyncio.Future[Any]") -> None:
        try:
            answer = operation()
        except Unavailable as error:
            self.carry(source, target, _settle, future, None, error)
            return
        answer.add_done_callback(lambda done: self._answer(source, target, done, future))

    def _answer(self, source: Host, target: Host, answer: "asyncio.Future[Any]", future: "asyncio.Future[Any]") -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        self.carry(target, source, _settle, future, None if error else answer.result(), error)


def _expire(future: "asyncio.Future[Any]") -> None:
    if not future.done():
        future.set_exception(Unavailable("no answer came", code="no_answer"))


def _settle(future: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)
