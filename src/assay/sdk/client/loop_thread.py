"""An event loop in its own thread, for blocking callers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from assay.core.model.errors import Invalid, Unavailable
from assay.sdk.workflow.replay import guard
from assay.sdk.workflow.replay.workflow_flag import FLAG

Outcome = TypeVar("Outcome")
SIGNAL_CHECK_SECONDS: Final = 0.5
"""The longest sleep of a waiting thread: Python handles a signal that another thread received when this one wakes."""


class LoopThread:
    """Runs coroutines for other threads. The thread is a daemon, so that it never delays the exit of a program."""

    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        self._process = os.getpid()
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._main, name="assay-loop", daemon=True)
        self._thread.start()
        self._ready.result()

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(self._live())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _live(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._ready.set_result(None)
        await self._end.wait()

    def call(self, name: str, make: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
        """Run a coroutine on the loop and wait for its outcome; `name` is the public call, for messages."""
        return outcome_of(self.begin(name, make))

    def begin(self, name: str, make: Callable[[], Coroutine[Any, Any, Outcome]]) -> concurrent.futures.Future[Outcome]:
        """Run a coroutine on the loop; return a future of its outcome."""
        self.check(name)
        if not self.alive:
            raise _closed()
        coroutine = make()
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError:  # closed since the check above
            coroutine.close()
            raise _closed() from None

    def check(self, name: str) -> None:
        """Refuse a call that would deadlock: from workflow code, or from the loop's own thread."""
        refuse_in_workflow(name)
        if threading.current_thread() is self._thread:
            text = f"{name} waits for the event loop it was called on: await the same call of an assay.Client instead"
            raise Invalid(text, code="would_deadlock")

    @property
    def alive(self) -> bool:
        """Return True if the loop can run coroutines: not after `close`, nor in a forked child."""
        return self._process == os.getpid() and self._thread.is_alive()

    def close(self, timeout: float | None = None) -> None:
        """End the loop and its thread; cancel coroutines that still run."""
        if self.alive:
            self.loop.call_soon_threadsafe(self._end.set)
            self._thread.join(timeout)


def refuse_in_workflow(name: str = "assay.Client") -> None:
    """Raise in workflow code: engine calls cannot be replayed, and would block the loop that they wait for."""
    if FLAG.inside:
        raise guard.refusal(name)


def outcome_of(future: concurrent.futures.Future[Outcome]) -> Outcome:
    """Wait for a future, waking often enough to handle signals."""
    try:
        while not concurrent.futures.wait([future], timeout=SIGNAL_CHECK_SECONDS).done:
            pass
        return future.result()
    except concurrent.futures.CancelledError:
        raise Unavailable("the connection was closed while this call waited", code="client_closed") from None
    except BaseException:
        future.cancel()  # interrupted: cancel the coroutine, whose outcome has no reader any more
        raise


def _closed() -> Unavailable:
    return Unavailable("the connection is closed: call workflow.connect again", code="client_closed")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # uvloop does not exist for every platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
