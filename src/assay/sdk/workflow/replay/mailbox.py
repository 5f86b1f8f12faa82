"""Signals of one run: kept in order until code asks for them, whether they come early or late (C53)."""

import asyncio
from collections import deque

from assay.core.model.ids import Seq
from assay.core.model.payload import Payload


class Mailbox:
    """One queue per signal name, and the coroutines that wait for the next of it."""

    __slots__ = ("_letters", "_waiters")

    def __init__(self) -> None:
        self._letters: dict[str, deque[tuple[Seq, Payload]]] = {}
        self._waiters: dict[str, deque[asyncio.Future[Payload | None]]] = {}

    def put(self, seq: Seq, name: str, payload: Payload) -> None:
        """Hand a signal to the first that waits for it, or keep it."""
        waiters = self._waiters.get(name)
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(payload)
                return
        self._letters.setdefault(name, deque()).append((seq, payload))

    def take(self, name: str) -> Payload | None:
        """The oldest kept signal of a name."""
        letters = self._letters.get(name)
        return letters.popleft()[1] if letters else None

    def wait(self, name: str, waiter: asyncio.Future[Payload | None]) -> None:
        """Give the next signal of a name to `waiter`."""
        self._waiters.setdefault(name, deque()).append(waiter)

    def unread(self) -> tuple[int, ...]:
        """The seqs of the signals that nobody took, in order."""
        return tuple(sorted(seq for letters in self._letters.values() for seq, _ in letters))
