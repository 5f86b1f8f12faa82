"""Hints between engines that share a Postgres server: new work or closed runs, sent by NOTIFY. Losing a hint is safe.

NOTIFY takes a lock that all commits of a server share. Hints are therefore coalesced and sent on a dedicated
connection, never inside a write. After a lost connection the listener subscribes again and then assumes missed hints.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from assay.core.model.errors import Unavailable
from assay.core.model.ids import RunId
from assay.storage.postgres.connections import DRIVER_ERRORS, connect

logger = logging.getLogger(__name__)

CHANNEL = "assay"
HINT_INTERVAL_SECONDS = 0.02
CLOSED, ANY_RUN = ":", "*"
MAX_NAMED_RUNS = 200
"""The maximum number of runs in a hint: a payload has at most 8,000 bytes. A hint about more runs names any run."""
RECONNECT_SECONDS = (0.1, 0.5, 2.0, 5.0)
KEEPALIVE_SECONDS = 30
"""The interval of keep-alive queries: a dead connection does not report its end."""


ClosedListener = Callable[[Collection[RunId] | None], None]


class Hints:
    """A sender and a listener of hints, each a background task with a dedicated connection."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._wakes: list[Callable[[], None]] = []
        self._on_closed: list[ClosedListener] = []
        self._work = False
        """Whether the next hint is about ready work."""
        self._closed: set[RunId] = set()
        """The closed runs that the next hint is about."""
        self._pending = asyncio.Event()
        self._sender: int | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def subscribe(self, wake: Callable[[], None], closed: ClosedListener | None = None) -> None:
        """Call `wake` on hints of other engines about work, `closed` on hints about runs, both after lost hints."""
        self._wakes.append(wake)
        if closed is not None:
            self._on_closed.append(closed)
        if len(self._tasks) == 1:
            self._tasks.append(asyncio.create_task(self._forever(self._listen)))

    def open(self) -> None:
        """Begin to send; listening begins with the first subscriber."""
        self._tasks.append(asyncio.create_task(self._forever(self._send)))

    async def close(self) -> None:
        """Stop sender and listener."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def send(self, *, work: bool, closed: Collection[RunId] = ()) -> None:
        """Send a hint about ready work or closed runs to other engines, at once or joined with the next hint."""
        self._work = self._work or work
        self._closed.update(closed)
        self._pending.set()

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
                await self._pending.wait()
                self._pending.clear()
                hint, self._work, self._closed = _encode(work=self._work, closed=self._closed), False, set()
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, hint)
                await asyncio.sleep(HINT_INTERVAL_SECONDS)
        except BaseException:
            self._work = True  # the hint may be lost: send another after the reconnect
            self._pending.set()
            raise
        finally:
            connection.terminate()

    async def _listen(self) -> None:
        connection = await connect(self._dsn)
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        try:
            await connection.add_listener(CHANNEL, self._receive)
            self._pass_on(work=True, closed=None)
            while not ended.is_set():
                try:
                    await asyncio.wait_for(ended.wait(), KEEPALIVE_SECONDS)
                except TimeoutError:
                    await connection.fetchval("SELECT 1")
        finally:
            connection.terminate()

    def _receive(self, _connection: Any, sender: int, _channel: str, payload: str) -> None:
        if sender != self._sender:
            work, _, closed = payload.partition(CLOSED)
            self._pass_on(
                work=bool(work), closed=None if closed == ANY_RUN else [RunId(run_id) for run_id in closed.split()]
            )

    def _pass_on(self, *, work: bool, closed: Collection[RunId] | None) -> None:
        for wake in self._wakes if work else ():
            wake()
        for listener in self._on_closed if closed is None or closed else ():
            listener(closed)


def _encode(*, work: bool, closed: Collection[RunId]) -> str:
    """Return the payload of a hint: a letter for ready work, then the closed runs if they are few enough to name."""
    runs = ANY_RUN if len(closed) > MAX_NAMED_RUNS else " ".join(closed)
    return ("w" if work else "") + (CLOSED + runs if closed else "")
