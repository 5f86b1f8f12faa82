"""Signals of one run, queued in order until code waits for them."""

import asyncio
from collections import deque

from assay.core.model.ids import Seq
from assay.core.model.payload import Payload


class Mailbox:
    """One queue per signal name, and the futures that wait for its next signal."""

    __slots__ = ("_signals", "_waiters")

    def __init__(self) -> None:
        self._signals: dict[str, deque[tuple[Seq, Payload]]] = {}
        self._waiters: dict[str, deque[asyncio.Future[Payload | None]]] = {}

    def put(self, seq: Seq, name: str, payload: Payload) -> None:
        """Give a signal to the first waiter of its name, or queue it."""
        waiters = self._waiters.get(name)
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(payload)
                return
        self._signals.setdefault(name, deque()).append((seq, payload))

    def take(self, name: str) -> Payload | None:
        """Remove and return the oldest queued signal of a name, or None."""
        signals = self._signals.get(name)
        return signals.popleft()[1] if signals else None

    def wait(self, name: str, waiter: asyncio.Future[Payload | None]) -> None:
        """Complete `waiter` with the next signal of a name."""
        self._waiters.setdefault(name, deque()).append(waiter)

    @property
    def is_awaited(self) -> bool:
        """Return True if code waits for a signal."""
        return any(not waiter.done() for waiters in self._waiters.values() for waiter in waiters)

    def unread(self) -> tuple[int, ...]:
        """Return the seqs of queued signals, in order."""
        return tuple(sorted(seq for signals in self._signals.values() for seq, _ in signals))
