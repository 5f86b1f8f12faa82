"""A process pool for `def` activities that compute: spawned processes, with heartbeats over a queue (R28)."""

import asyncio
import contextlib
import importlib
import itertools
import multiprocessing
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.managers import SyncManager
from typing import Any

from assay.core.errors import Failure, Invalid, Kind
from assay.sdk.activity_context import ActivityContext, ActivityInfo
from assay.sdk.app import Definition
from assay.sdk.signatures import signature_of

BeatOf = Callable[[int], Callable[[Any], bool] | None]
GONE = (EOFError, OSError)
"""What a call to the manager raises when that is there no more."""


class Processes:
    """Started when the first activity needs it; ends with the worker."""

    def __init__(self, beat_of: BeatOf) -> None:
        self._beat_of = beat_of
        self._pool: ProcessPoolExecutor | None = None
        self._manager: SyncManager | None = None
        self._starting: asyncio.Future[None] | None = None
        self._closed = False
        self._unwanted: Any = None
        self._beats: Any = None
        self._marks: dict[int, asyncio.Future[None]] = {}
        self._mark_numbers = itertools.count(-1, -1)

    async def call(self, definition: Definition, info: ActivityInfo, details: Any, value: Any, attempt_id: int) -> Any:
        """Run an activity in a process of the pool."""
        target = _address(definition)
        pool = await self._started()
        try:
            job = pool.submit(_work, target, info, details, value, attempt_id, self._beats, self._unwanted)
            return await asyncio.wrap_future(job)
        except BrokenProcessPool as error:
            if self._pool is pool:
                self._pool = None  # it takes no more work, ever: the next activity gets a new one
            raise Failure("the process that ran the activity died", kind=Kind.UNAVAILABLE) from error
        except (Exception, SystemExit, KeyboardInterrupt):
            await self._heard_all()
            raise

    async def _started(self) -> ProcessPoolExecutor:
        if self._manager is None:
            loop = asyncio.get_running_loop()
            if self._starting is None or self._starting.done():
                self._starting = loop.run_in_executor(None, self._start, loop)  # it takes its time
            await asyncio.shield(self._starting)
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(mp_context=context, initializer=_leave_interrupts_to_the_worker)
        return self._pool

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        manager = multiprocessing.get_context("spawn").Manager()
        if self._closed:
            manager.shutdown()
            raise Failure("the worker has stopped", kind=Kind.UNAVAILABLE)
        self._beats, self._unwanted, self._manager = manager.Queue(), manager.dict(), manager
        threading.Thread(target=self._listen, args=(loop, self._beats), name="assay-beats", daemon=True).start()

    def _listen(self, loop: asyncio.AbstractEventLoop, beats: Any) -> None:
        while True:
            try:
                number, details = beats.get()
                loop.call_soon_threadsafe(self._beaten, number, details)
            except (*GONE, RuntimeError):
                return

    def _beaten(self, number: int, details: Any) -> None:
        mark = self._marks.pop(number, None)
        beat = None if mark is not None else self._beat_of(number)
        if mark is not None and not mark.done():
            mark.set_result(None)
        elif beat is not None:
            beat(details)

    async def _heard_all(self) -> None:
        """Wait for the heartbeats of a process that has ended: its result came by another way."""
        number = next(self._mark_numbers)
        mark = self._marks[number] = asyncio.get_running_loop().create_future()
        with contextlib.suppress(*GONE, TimeoutError):
            self._beats.put((number, None))
            await asyncio.wait_for(mark, 1)

    def cancel(self, attempt_id: int) -> None:
        """Let the attempt's next heartbeat tell it to stop."""
        if self._unwanted is not None:
            with contextlib.suppress(*GONE):
                self._unwanted[attempt_id] = True

    def close(self) -> None:
        """End the processes, whatever they are at: stopping waits for nobody beyond the drain."""
        self._closed = True
        pool, manager = self._pool, self._manager
        self._pool = self._manager = self._unwanted = None
        if pool is not None:
            # the executor has no way to end a process that works, and would wait for it at exit
            processes = tuple((getattr(pool, "_processes", None) or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
        if manager is not None:
            manager.shutdown()


def _leave_interrupts_to_the_worker() -> None:
    """Ctrl-C goes to the whole group of processes; it is for the worker to say what becomes of its activities."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _address(definition: Definition) -> tuple[str, str]:
    """Where a new process finds the function: its module and its name in there."""
    function = definition.function
    if "<" in function.__qualname__:
        raise Invalid(f"activity '{definition.name}' runs in a process: define it at the top level of a module")
    # a spawned process loads the main program under another name
    module = "__mp_main__" if function.__module__ == "__main__" else function.__module__
    return module, function.__qualname__


def _work(
    target: tuple[str, str],
    info: ActivityInfo,
    details: Any,
    value: Any,
    attempt_id: int,
    beats: Any,
    unwanted: Any,
) -> Any:
    """In the pool's process: find the function and call it."""
    module, name = target
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)

    def beat(details: Any) -> bool:
        beats.put((attempt_id, details))
        return attempt_id in unwanted

    args, named = signature_of(found).arguments(ActivityContext(lambda: info, details, beat), value)
    return found(*args, **named)
