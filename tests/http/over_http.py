"""A pytest plugin that sends tests of the embedded engine over HTTP: `pytest -p tests.http.over_http tests/sdk`.

Each SQLite URL that a test connects to gets a server in a thread of its own; the test sees only the URL it knows.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest
import uvicorn

from assay.sdk.client import connections
from assay.sdk.client.http.transport import HttpTransport
from assay.sdk.client.transport import Transport
from assay.server.composition import running
from assay.server.config import ServerConfig
from assay.server.serve import _bound, _Listener, _uvicorn
from assay.server.stop_signals import StopSignals


class Quiet(_Listener):
    """Signals are for the main thread."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Served:
    """A server in a thread."""

    def __init__(self, database: str) -> None:
        self._config = ServerConfig(database=database, port=0)
        self._ready = threading.Event()
        self._listener: uvicorn.Server | None = None
        self.url = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(20)

    async def _serve(self) -> None:
        listening = _bound(self._config)
        async with running(self._config) as (api, _):
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            self._listener = Quiet(_uvicorn(api, self._config.limits), api, StopSignals())
            asyncio.get_running_loop().call_later(0.05, self._ready.set)
            await self._listener.serve([listening])
        listening.close()

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.should_exit = True
        self._thread.join(15)


class Shared:
    """The server of one database, for as long as somebody is connected to it."""

    servers: ClassVar[dict[str, tuple[Served, int]]] = {}

    @classmethod
    def enter(cls, database: str) -> str:
        served, count = cls.servers.get(database) or (Served(database), 0)
        cls.servers[database] = served, count + 1
        return served.url

    @classmethod
    def leave(cls, database: str) -> None:
        served, count = cls.servers[database]
        cls.servers[database] = served, count - 1
        if count == 1:
            del cls.servers[database]
            served.stop()


class OverHttp(HttpTransport):
    """A transport to a server that it starts."""

    def __init__(self, database: str, token: str | None) -> None:
        self._database = database
        super().__init__(Shared.enter(database), token)

    async def close(self) -> None:
        if self._calls is not None:
            await super().close()
            await asyncio.to_thread(Shared.leave, self._database)


@pytest.fixture(autouse=True)
def over_http() -> Iterator[None]:
    """Every sqlite:// URL leads to a server."""
    before = dict(connections._factories)

    def factory(url: str, token: str | None, _timeout_seconds: float) -> Transport:
        return OverHttp(url, token)

    connections._factories["sqlite"] = factory
    yield
    connections._factories.update(before)
