"""Background services: each does its due work in `run_once`, and a `Loop` calls it until stopped."""

import asyncio
import contextlib
import logging
from typing import Protocol

from assay.core.model.errors import AssayError
from assay.core.model.ids import SECOND, Time
from assay.storage.ports import Broken

log = logging.getLogger("assay.engine")
FAILED_SERVICE_PAUSE: Time = SECOND
"""Time until a failed service runs again."""


class Service(Protocol):
    """Work beside requests. Tests call `run_once` with a clock of their own."""

    async def run_once(self) -> Time | None:
        """Do the due work; return the time of the next run, or None to run only when woken."""
        ...


class Loop:
    """A task that runs a service until stopped: when woken, and at the times that the service returns."""

    def __init__(self, service: Service, now: "NowSource") -> None:
        self._service = service
        self._now = now
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Cancel the task and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def wake(self) -> None:
        """Run the service now, or once more after its present run."""
        self._woken.set()

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            again = await self._survive()
            with contextlib.suppress(TimeoutError):
                # Not wait_for: in Python 3.11 it loses a cancellation that arrives together with the result.
                async with asyncio.timeout(self._pause(again)):
                    await self._woken.wait()

    async def _survive(self) -> Time | None:
        """Run the service once; after an error it runs again, because no other part does its work."""
        try:
            return await self._service.run_once()
        except Broken as error:
            log.error("%s: %s; the service ends", type(self._service).__name__, error)  # the engine has stopped, too
            return None
        except AssayError as error:
            log.warning("%s: %s; the service retries in a second", type(self._service).__name__, error)
            return self._now.now() + FAILED_SERVICE_PAUSE
        except Exception:
            log.exception("%s failed; the service retries in a second", type(self._service).__name__)
            return self._now.now() + FAILED_SERVICE_PAUSE

    def _pause(self, again: Time | None) -> float | None:
        return None if again is None else max(0.0, (again - self._now.now()) / SECOND)


class NowSource(Protocol):
    """A source of the time."""

    def now(self) -> Time:
        """Return microseconds since the epoch."""
        ...
