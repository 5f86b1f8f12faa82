"""The one shape of background work: it can be started, stopped, and run once by hand."""

import asyncio
import contextlib
import logging
from typing import Protocol

from assay.core.model.errors import AssayError
from assay.core.model.ids import SECOND, Time
from assay.storage.ports import Broken

log = logging.getLogger("assay.engine")
FAILED_SERVICE_PAUSE: Time = SECOND
"""How long a service rests after it has failed."""


class Service(Protocol):
    """Work that goes on beside requests. Tests call `run_once` with a clock of their own."""

    async def run_once(self) -> Time | None:
        """Do what is due now; when to look again at the latest, or None if only `wake` can bring work."""
        ...


class Loop:
    """Runs a service until it is stopped: at once when woken, otherwise when the service asked for it."""

    def __init__(self, service: Service, now: "NowSource") -> None:
        self._service = service
        self._now = now
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End; waits until the service is still."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def wake(self) -> None:
        """Look again now."""
        self._woken.set()

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            again = await self._survive()
            with contextlib.suppress(TimeoutError):
                # not wait_for: in Python 3.11 that loses a cancel which comes together with what it waits for
                async with asyncio.timeout(self._pause(again)):
                    await self._woken.wait()

    async def _survive(self) -> Time | None:
        """A service that fails tries again: nobody else would do its work."""
        try:
            return await self._service.run_once()
        except Broken as error:
            log.error("%s: %s; it ends", type(self._service).__name__, error)  # the engine has stopped, too
            return None
        except AssayError as error:
            log.warning("%s: %s; it goes on in a moment", type(self._service).__name__, error)
            return self._now.now() + FAILED_SERVICE_PAUSE
        except Exception:
            log.exception("%s failed; it goes on in a moment", type(self._service).__name__)
            return self._now.now() + FAILED_SERVICE_PAUSE

    def _pause(self, again: Time | None) -> float | None:
        return None if again is None else max(0.0, (again - self._now.now()) / SECOND)


class NowSource(Protocol):
    """Anything that knows the time."""

    def now(self) -> Time:
        """Microseconds since the epoch."""
        ...
