"""Threads for `def` activities and steps: daemons, so that stopping never waits for them beyond the drain.

A thread cannot be stopped. A thread whose job has no waiter any more is *abandoned*: another takes its place in the
pool, and the abandoned thread ends when its function returns, if ever.
"""

import asyncio
import contextvars
import inspect
import queue
import threading
from collections.abc import Callable
from typing import Any

from assay.sdk.worker.stacks import stack_of


class Job:
    """A call in a thread, and the future of its outcome."""

    __slots__ = ("call", "future", "is_abandoned", "loop", "thread")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", call: Callable[[], Any]) -> None:
        self.loop = loop
        self.future = future
        self.call = call
        self.thread = 0
        """The id of the thread that makes the call; 0 before it has begun."""
        self.is_abandoned = False


class DaemonThreads:
    """A pool of daemon threads that grows to its limit with the number of jobs."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._open: dict[asyncio.Future[Any], Job] = {}
        """Jobs that have not ended, in the order in which they were submitted."""
        self._idle = 0
        self._count = 0
        self._abandoned: dict[asyncio.Future[Any], Job] = {}
        self._lock = threading.Lock()

    @property
    def abandoned(self) -> int:
        """Return the number of abandoned threads that still execute a job."""
        return len(self._abandoned)

    def submit(self, function: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Call a function in a thread; return a future of its outcome on the caller's loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        job = Job(loop, future, lambda: context.run(function, *args))
        with self._lock:
            self._open[future] = job
            if self._idle:
                self._idle -= 1
            elif self._count < self._limit:
                self._count += 1
                threading.Thread(target=self._work, name=f"assay-{self._count}", daemon=True).start()
        self._jobs.put(job)
        return future

    def abandon(self, future: "asyncio.Future[Any]") -> str | None:
        """Abandon a job: cancel its future, and let another thread take the place of the executing one.

        Returns:
            The stack of the thread, or None if no thread executes the job: it never begins, or has ended.
        """
        with self._lock:
            job = self._open.pop(future, None)
            if job is not None and job.thread:
                job.is_abandoned = True
                self._abandoned[future] = job
                self._count -= 1
        future.cancel()
        return stack_of(job.thread) if job is not None and job.thread else None

    def abandoned_stacks(self) -> list[str]:
        """Return the stacks of all abandoned threads."""
        with self._lock:
            threads = [job.thread for job in self._abandoned.values()]
        return [stack_of(thread) for thread in threads]

    def close(self) -> None:
        """Let idle threads end; busy threads end after their job."""
        with self._lock:
            for _ in range(self._count):
                self._jobs.put(None)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            if not self._begin(job):
                continue
            try:
                outcome: tuple[Any, BaseException | None] = (job.call(), None)
            except BaseException as error:  # noqa: BLE001  # raised to the waiter of the future
                outcome = (None, error)
            goes_on = self._end(job)
            _complete(job.loop, job.future, *outcome)
            del job, outcome
            if not goes_on:
                return

    def _begin(self, job: Job) -> bool:
        """Note the thread that executes a job; return False if the job was abandoned before."""
        with self._lock:
            if job.future not in self._open:
                self._idle += 1
                return False
            job.thread = threading.get_ident()
            return True

    def _end(self, job: Job) -> bool:
        """Note the return of a call; return False if another thread has taken the place of this one."""
        with self._lock:
            if job.is_abandoned:
                del self._abandoned[job.future]
                return False
            self._open.pop(job.future, None)
            self._idle += 1
            return True


def _complete(
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
        _close(value)  # the loop is closed: the outcome has no reader any more


def discard(future: "asyncio.Future[Any]") -> None:
    """Discard a future whose outcome may just have arrived, and has no reader any more."""
    if future.done() and not future.cancelled() and future.exception() is None:
        _close(future.result())


def _close(value: Any) -> None:
    """Close a coroutine that will not be awaited, which prevents Python's warning."""
    if inspect.iscoroutine(value):
        value.close()
