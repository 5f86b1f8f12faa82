"""Threads for `def` activities and steps: daemons, so that stopping never waits for them beyond the drain (R28)."""

import asyncio
import contextvars
import inspect
import queue
import threading
from collections.abc import Callable
from typing import Any

Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class DaemonThreads:
    """A pool that grows to its limit as jobs come, and whose threads die with the process."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._idle = 0
        self._count = 0
        self._lock = threading.Lock()

    def submit(self, function: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Call a function in a thread; its outcome on the caller's loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._count < self._limit:
                self._count += 1
                threading.Thread(target=self._work, name=f"assay-{self._count}", daemon=True).start()
        self._jobs.put((loop, future, lambda: context.run(function, *args)))
        return future

    def close(self) -> None:
        """Let idle threads end; busy ones end when they are done."""
        with self._lock:
            for _ in range(self._count):
                self._jobs.put(None)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            loop, future, call = job
            try:
                outcome: tuple[Any, BaseException | None] = (call(), None)
            except BaseException as error:  # noqa: BLE001  # handed to whoever waits for it
                outcome = (None, error)
            with self._lock:
                self._idle += 1
            _tell(loop, future, *outcome)
            del job, future, call, outcome


def _tell(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", value: Any, error: BaseException | None
) -> None:
    def finish() -> None:
        if future.done():
            _close(value)
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, StopIteration):
            future.set_exception(RuntimeError("the function raised StopIteration"))
        else:
            future.set_exception(error)

    try:
        loop.call_soon_threadsafe(finish)
    except RuntimeError:
        _close(value)  # the loop is closed: nobody waits any more


def abandon(future: "asyncio.Future[Any]") -> None:
    """Nobody waits for a job any more, whose outcome may just have come."""
    if future.done() and not future.cancelled() and future.exception() is None:
        _close(future.result())


def _close(value: Any) -> None:
    """A coroutine that nobody will await complains about that."""
    if inspect.iscoroutine(value):
        value.close()
