"""Serve until a signal arrives: drain, release unfinished work, and return within ten seconds."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, Protocol

from assay.core.model.limits import LISTENER_DRAIN_SECONDS
from assay.sdk.worker.watchdog import end_process_later

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
LISTENER_CANCEL_SECONDS: Final = 0.5


class Serving(Protocol):
    """The interface of a worker to `serve`."""

    async def run(self) -> None:
        """Serve until stopped."""
        ...

    def stop(self) -> None:
        """Begin to drain."""
        ...


async def serve(worker: Serving, stopping: asyncio.Event) -> None:
    """Run `worker` until it ends or `stopping` is set; then drain, for a limited time."""
    running = asyncio.ensure_future(worker.run())
    stop_requested = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({running, stop_requested}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            worker.stop()
            await asyncio.wait({running}, timeout=LISTENER_DRAIN_SECONDS)
    finally:
        stop_requested.cancel()
        if not running.done():
            running.cancel()
            await asyncio.wait({running}, timeout=LISTENER_CANCEL_SECONDS)
    if running.done() and not running.cancelled():
        running.result()


@contextlib.contextmanager
def stop_signals(stop: Callable[[], object], stopped: threading.Event | None = None) -> Iterator[None]:
    """Call `stop` at the first SIGINT or SIGTERM, exit at the second; restore the signal handlers afterwards.

    Code that never returns may block the event loop: a thread exits the process ten seconds after the signal, unless
    `stopped` is set before. Signals are not blocked in other threads: child processes would inherit the mask and could
    not be terminated.

    Only the main thread may handle signals; in other threads this does nothing.

    Args:
        stop: Called in the main thread.
        stopped: Set by the caller when the process may continue; by default set at the end of the block.
    """
    if not in_main_thread():
        yield
        return
    is_stopped = threading.Event() if stopped is None else stopped
    is_stopping = False

    def receive(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopping
        if is_stopping:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        is_stopping = True
        end_process_later(is_stopped)
        stop()

    previous = {number: signal.signal(number, receive) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        if stopped is None:
            is_stopped.set()
        for number, handler in previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def in_main_thread() -> bool:
    """Return True in the thread that receives signals."""
    return threading.current_thread() is threading.main_thread()
