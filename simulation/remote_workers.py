"""Workers in other processes: the driver of each end of the worker protocol, as over HTTP, on the simulated network.

Messages are encoded, sent as the bodies of requests, and decoded, by the code that serves POST requests. Only the
sockets between both ends are simulated.
"""

import asyncio
from typing import TYPE_CHECKING, Any, cast

from assay.api.exchange import Exchange
from assay.core.model.errors import NotFound, Refused, Unavailable
from assay.core.model.replies import ReplyCallback
from assay.core.model.requests import Request
from assay.engine.engine import Engine
from assay.engine.worker_registry import WorkerRegistry, WorkerRow
from assay.worker_protocol.tokens import Tokens

if TYPE_CHECKING:
    from simulation.hosts import EngineHost, WorkerHost
    from simulation.world import World

SECRET = b"the same key for all engines of a database"
SWEEP_SECONDS = 1.0
"""Seconds between two looks for silent workers."""
HOLD_SECONDS = 2.0
"""Seconds that an engine holds a request without news: less than a caller's patience."""


class _NotedEngine:
    """An engine whose replies to workers are checked, as those to clients are."""

    def __init__(self, engine: Engine, host: "EngineHost") -> None:
        self._engine = engine
        self._host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def post(self, request: Request, callback: ReplyCallback | None = None) -> None:
        """See `Engine`."""

        def noted(reply: Any, error: Any) -> None:
            self._host.noted(request, reply, error)
            if callback is not None:
                callback(reply, error)

        self._engine.post(request, noted)


class _NoRegistry:
    """The registry of workers, which decides nothing here."""

    async def introduce(self, row: WorkerRow) -> None:
        """See `WorkerRegistry`."""

    def note_heartbeat(self, worker: str) -> None:
        """See `WorkerRegistry`."""


class WorkerDoor:
    """The exchange of an engine with workers in other processes."""

    def __init__(self, engine: Engine, host: "EngineHost") -> None:
        noted, registry = cast(Engine, _NotedEngine(engine, host)), cast(WorkerRegistry, _NoRegistry())
        self._exchange = Exchange(noted, Tokens(SECRET), registry)

    async def post(self, worker: str, body: bytes) -> bytes:
        """Return the response to a worker's request, after a while if there is nothing to send yet."""
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return await self._exchange.post("main", worker, body, gone)

    async def watch(self) -> None:
        """Disconnect silent workers, for ever."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self._exchange.run_once()


class SimulatedPool:
    """See `HttpPool`: requests of one worker to one engine at a time, and to another when that one fails."""

    origin = "simulated"

    def __init__(self, world: "World", host: "WorkerHost", worker: str, first: int) -> None:
        self._world = world
        self._host = host
        self._worker = worker
        self._turn = first

    def check_key_file(self) -> bool:
        """See `HttpPool`: simulated workers have no key."""
        return False

    async def request(self, method: str, path: str, body: bytes, timeout: float) -> tuple[int, bytes]:  # noqa: ASYNC109  # see `HttpPool`
        """See `HttpPool`: a lost message, or an engine that starts or stops, is a broken connection."""
        engines = self._world.engines
        engine = engines[self._turn % len(engines)]
        try:
            answer = await self._world.network.call(self._host, engine, lambda: engine.exchange(self._worker, body))
        except (Unavailable, NotFound, Refused) as error:
            self._turn += isinstance(error, Unavailable)
            raise ConnectionError(str(error)) from error
        return 200, answer
