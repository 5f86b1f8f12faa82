"""Serving until a signal says to stop: drain, give back what is not done, and be gone within ten seconds (L4)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, Protocol

from assay.core.limits import LISTENER_DRAIN_SECONDS

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
LISTENER_CANCEL_SECONDS: Final = 0.5


class Serving(Protocol):
    """What `serve` needs of a worker."""

    async def run(self) -> None:
        """Serve until stopped."""
        ...

    def stop(self) -> None:
        """Begin to drain."""
        ...


async def serve(worker: Serving, stopping: asyncio.Event) -> None:
    """Run `worker` until it ends or `stopping` is set; then give it time to drain, but not for ever."""
    running = asyncio.ensure_future(worker.run())
    asked = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            worker.stop()
            await asyncio.wait({running}, timeout=LISTENER_DRAIN_SECONDS)
    finally:
        asked.cancel()
        if not running.done():
            running.cancel()
            await asyncio.wait({running}, timeout=LISTENER_CANCEL_SECONDS)
    if running.done() and not running.cancelled():
        running.result()


@contextlib.contextmanager
def stop_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at the first SIGINT or SIGTERM and end at once at the second; handlers are put back afterwards.

    Only the main thread may handle signals; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False

    def heard(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        asked = True
        stop()

    previous = {number: signal.signal(number, heard) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
