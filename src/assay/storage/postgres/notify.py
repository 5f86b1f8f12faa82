"""Hints between engines that share a Postgres: "there is something new", sent seldom and lost without harm (4.6).

NOTIFY takes a lock that all commits of a server share, so hints are coalesced and travel on a connection of their own,
never inside a write. A listener that lost its connection listens again first and then assumes that it missed something.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from assay.core.errors import Unavailable
from assay.storage.postgres.connections import DRIVER_ERRORS, connect

logger = logging.getLogger(__name__)

CHANNEL = "assay"
QUIET_SECONDS = 0.02
RECONNECT_SECONDS = (0.1, 0.5, 2.0, 5.0)
ALIVE_SECONDS = 30
"""How often a silent connection is asked whether it is still there; a dead one says nothing by itself."""


class Hints:
    """Sends and receives hints while it is open."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._wakes: list[Callable[[], None]] = []
        self._news = asyncio.Event()
        self._sender: int | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` on every hint of others, and whenever one may have been missed."""
        self._wakes.append(wake)
        if len(self._tasks) == 1:
            self._tasks.append(asyncio.create_task(self._forever(self._listen)))

    def open(self) -> None:
        """Begin to send; listening begins with the first subscriber."""
        self._tasks.append(asyncio.create_task(self._forever(self._send)))

    async def close(self) -> None:
        """Stop both."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def give(self) -> None:
        """Something was committed: tell the others, at once or with the next."""
        self._news.set()

    async def _forever(self, act: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            try:
                await act()
                failures = 0
            except (Unavailable, *DRIVER_ERRORS) as error:
                logger.warning("hints between engines are interrupted: %s", error)
                failures += 1
            await asyncio.sleep(RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])

    async def _send(self) -> None:
        connection = await connect(self._dsn)
        self._sender = connection.get_server_pid()
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                await connection.execute("SELECT pg_notify($1, 'w')", CHANNEL)
                await asyncio.sleep(QUIET_SECONDS)
        except BaseException:
            self._news.set()  # this hint may not have gone out
            raise
        finally:
            connection.terminate()

    async def _listen(self) -> None:
        connection = await connect(self._dsn)
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        try:
            await connection.add_listener(CHANNEL, self._heard)
            self._wake()
            while not ended.is_set():
                try:
                    await asyncio.wait_for(ended.wait(), ALIVE_SECONDS)
                except TimeoutError:
                    await connection.fetchval("SELECT 1")
        finally:
            connection.terminate()

    def _heard(self, _connection: Any, sender: int, _channel: str, _payload: str) -> None:
        if sender != self._sender:
            self._wake()

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()
