"""Connections are served by our classes on the uvicorn that they extend, and by uvicorn's own on any other."""

import asyncio
import contextlib
import logging
import re
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from assay import App, Client, Worker
from assay.sdk.client.http.reconnector import Reconnector
from assay.server import connection, protocols
from assay.server.client_limits import ClientLimits
from assay.server.composition import running
from assay.server.config import ServerConfig
from assay.server.serve import _bound, _Listener, _uvicorn
from assay.server.sockets import Socket
from assay.server.stop_signals import StopSignals

ROOT = Path(__file__).parents[2]
OTHER_VERSIONS = ["0.53.9", "0.55.0", "0.540.0", "1.54.0"]


class Listener(_Listener):
    """A server that leaves signals to the test."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def served(folder: Path, limits: ClientLimits) -> AsyncIterator[str]:
    """Serve a new database; the URL of its engine."""
    config = ServerConfig(database=f"sqlite://{folder}/w.db", port=0, limits=limits)
    with contextlib.closing(_bound(config)) as listening:
        async with running(config) as (api, _):
            listener = Listener(_uvicorn(api, limits), api, StopSignals())
            serving = asyncio.get_running_loop().create_task(listener.serve([listening]))
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                listener.should_exit = True
                await asyncio.wait_for(serving, 15)


app = App()


@app.activity
async def twice(ctx: Any, value: int) -> int:
    return 2 * value


@app.workflow
async def double(ctx: Any, value: int) -> int:
    return int(await ctx.execute_activity("twice", value))


async def results(url: str) -> list[int]:
    """What a worker and a client make of an engine."""
    async with await Client.connect(url) as client:
        worker = Worker(client, "q", app=app)
        running_worker = asyncio.get_running_loop().create_task(worker.run())
        try:
            runs = (client.run("double", number, task_queue="q") for number in range(20))
            return await asyncio.wait_for(asyncio.gather(*runs), 30)
        finally:
            running_worker.cancel()
            await asyncio.wait({running_worker})


def test_the_dependency_ends_where_the_fast_path_does():
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = next(one for one in dependencies if one.startswith("uvicorn"))
    major, minor = map(int, protocols.EXTENDED_UVICORN.split("."))
    assert bounds == f"uvicorn>={major}.{minor},<{major}.{minor + 1}"
    assert uvicorn.__version__.startswith(f"{protocols.EXTENDED_UVICORN}.")


def test_answers_and_messages_take_the_fast_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    taken: list[str] = []
    reply, send, receive = connection._reply, Socket.send_message, Socket._received

    def replied(*arguments: Any) -> bool:
        taken.append("answer" if (done := reply(*arguments)) else "slow answer")
        return done

    def counted_send(socket: Socket, body: bytes) -> None:
        taken.append("message out")
        send(socket, body)

    def counted_receive(socket: Socket, frame: bytes, head: int) -> bool:
        taken.append("message in" if (done := receive(socket, frame, head)) else "slow message in")
        return done

    monkeypatch.setattr(connection, "_reply", replied)
    monkeypatch.setattr(Socket, "send_message", counted_send)
    monkeypatch.setattr(Socket, "_received", counted_receive)

    async def main() -> None:
        async with served(tmp_path, ClientLimits()) as url:
            assert await results(url) == [2 * number for number in range(20)]

    asyncio.run(main())
    assert {"answer", "message in", "message out"} <= set(taken)
    assert "slow answer" not in taken
    assert taken.count("message in") > taken.count("slow message in")


@pytest.mark.parametrize("version", OTHER_VERSIONS)
def test_another_uvicorn_serves_by_its_own_classes(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog
):
    monkeypatch.setattr(uvicorn, "__version__", version)
    with caplog.at_level(logging.WARNING, "assay.server"):
        found = protocols.protocols_of(None, ClientLimits(connections=7))  # type: ignore[arg-type]
    assert (found.http, found.ws, found.connections) == ("auto", "auto", 7)
    assert f"uvicorn {version} is not 0.54" in caplog.text


def test_the_plain_path_serves_clients_and_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(uvicorn, "__version__", OTHER_VERSIONS[1])

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the fast path was taken")

    monkeypatch.setattr(connection.Connection, "__init__", never)
    monkeypatch.setattr(Socket, "__init__", never)
    monkeypatch.setattr(Reconnector, "_post", never)  # the worker's WebSocket works

    async def main() -> None:
        async with served(tmp_path, ClientLimits()) as url:
            assert await results(url) == [2 * number for number in range(20)]
            with pytest.raises(InvalidStatus, match="404"):
                await connect(re.sub("^http", "ws", url) + "/api/v1/workflows")

    asyncio.run(main())
