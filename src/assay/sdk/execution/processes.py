"""A process pool for `def` activities that compute: spawned processes, with heartbeats over a queue (R28)."""

import asyncio
import importlib
import multiprocessing
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.managers import SyncManager
from typing import Any

from assay.core.errors import Invalid
from assay.sdk.activity_context import ActivityContext, ActivityInfo
from assay.sdk.app import Definition
from assay.sdk.signatures import signature_of

BeatOf = Callable[[int], Callable[[Any], bool] | None]


class Processes:
    """Started when the first activity needs it; ends with the worker."""

    def __init__(self, beat_of: BeatOf) -> None:
        self._beat_of = beat_of
        self._pool: ProcessPoolExecutor | None = None
        self._manager: SyncManager | None = None
        self._unwanted: Any = None
        self._beats: Any = None

    async def call(self, definition: Definition, info: ActivityInfo, details: Any, value: Any, attempt_id: int) -> Any:
        """Run an activity in a process of the pool."""
        pool = self._pool or self._start()
        target = _address(definition)
        job = pool.submit(_work, target, info, details, value, attempt_id, self._beats, self._unwanted)
        return await asyncio.wrap_future(job)

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        self._manager = context.Manager()
        self._beats = self._manager.Queue()
        self._unwanted = self._manager.dict()
        self._pool = ProcessPoolExecutor(mp_context=context)
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(loop, self._beats), name="assay-beats", daemon=True).start()
        return self._pool

    def _listen(self, loop: asyncio.AbstractEventLoop, beats: Any) -> None:
        while True:
            try:
                attempt_id, details = beats.get()
                loop.call_soon_threadsafe(self._beaten, attempt_id, details)
            except (EOFError, OSError, RuntimeError):
                return

    def _beaten(self, attempt_id: int, details: Any) -> None:
        beat = self._beat_of(attempt_id)
        if beat is not None:
            beat(details)

    def cancel(self, attempt_id: int) -> None:
        """Let the attempt's next heartbeat tell it to stop."""
        if self._unwanted is not None:
            self._unwanted[attempt_id] = True

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        if self._manager is not None:
            self._manager.shutdown()
        self._pool = self._manager = self._unwanted = self._beats = None


def _address(definition: Definition) -> tuple[str, str, str | None]:
    """Where a new process finds the function: its module, its name, and the file if it is the main program."""
    function = definition.function
    module, name = function.__module__, function.__qualname__
    if "<" in name:
        raise Invalid(f"activity '{definition.name}' runs in a process: define it at the top level of a module")
    file = getattr(sys.modules.get(module), "__file__", None) if module == "__main__" else None
    return module, name, file


def _work(
    target: tuple[str, str, str | None],
    info: ActivityInfo,
    details: Any,
    value: Any,
    attempt_id: int,
    beats: Any,
    unwanted: Any,
) -> Any:
    """In the pool's process: find the function and call it."""
    module, name, _ = target
    # a spawned process loads the main program under this name
    found: Any = importlib.import_module("__mp_main__" if module == "__main__" else module)
    for part in name.split("."):
        found = getattr(found, part)

    def beat(details: Any) -> bool:
        beats.put((attempt_id, details))
        return attempt_id in unwanted

    args, named = signature_of(found).arguments(ActivityContext(info, details, beat), value)
    return found(*args, **named)
