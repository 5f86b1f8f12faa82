"""Restate as a server: `restate_http <server program> <folder>`, the client, which starts server and worker beside it.

Its fastest known settings on a small machine: 4 partitions instead of 24, granian with HTTP/2 and uvloop for the
worker, so many streams that no workflow waits for one, and aiohttp for the client. Each of its commits is synced to the
disk, which is its default.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from benchmarks.contestants.children import START_SECONDS, child, free_port, listening
from benchmarks.contestants.session import serve
from benchmarks.idle import Idle
from benchmarks.workloads import Engine

PARTITIONS = 4
WORKER = [
    *("-m", "granian", "--interface", "asgi", "--http", "2", "--loop", "uvloop", "--workers", "1", "--no-ws"),
    *("--http2-max-concurrent-streams", "10000", "--backpressure", "20000", "--log-level", "error"),
    *("--host", "127.0.0.1", "--workers-kill-timeout", "1"),
]


class Restate(Engine):
    """See `Engine`; a handle is the path of a workflow, and the ingress speaks JSON over HTTP."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def start(self, kind: str, workflow_id: str, argument: dict[str, Any]) -> Any:
        """See `Engine`."""
        await self._ask("POST", f"/{kind}/{workflow_id}/run/send", argument)
        return f"{kind}/{workflow_id}"

    async def result(self, handle: Any) -> Any:
        """See `Engine`."""
        return await self._ask("GET", f"/restate/workflow/{handle}/attach")

    async def signal(self, handle: Any, value: Any) -> None:
        """See `Engine`."""
        await self._ask("POST", f"/{handle}/go", value)

    async def execute(self, kind: str, workflow_id: str, argument: dict[str, Any]) -> Any:
        """See `Engine`: one request."""
        return await self._ask("POST", f"/{kind}/{workflow_id}/run", argument)

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        async with self._session.request(method, path, json=body) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            return await answer.json(content_type=None)


def settings(folder: Path, ingress: int, admin: int) -> dict[str, str]:
    """What the server is told by its environment."""
    node = free_port()
    return {
        "RESTATE_BASE_DIR": str(folder / "restate"),
        "RESTATE_DEFAULT_NUM_PARTITIONS": str(PARTITIONS),
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
        "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{node}/",
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "warn",
    }


async def introduce(session: aiohttp.ClientSession, admin: int, worker: int) -> None:
    """Tell the server of the worker, and return when a workflow has run."""
    body = {"uri": f"http://127.0.0.1:{worker}/"}
    await _until_ok(session, f"http://127.0.0.1:{admin}/deployments", {**body, "force": True})
    await _until_ok(session, "/one/introduction/run", {"i": 0})


async def _until_ok(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> None:
    last_answer = ""
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                async with session.post(url, json=body) as answer:
                    if answer.status < 300:
                        return
                    last_answer = await answer.text()
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise RuntimeError(f"{url}: {last_answer}") from None


async def drive(server: str, folder: Path) -> None:
    """Be asked, with a server and a worker beside."""
    ingress, admin, port = free_port(), free_port(), free_port()
    worker_command = [sys.executable, *WORKER, "--port", str(port), "benchmarks.contestants.restate_services:app"]
    connections = aiohttp.TCPConnector(limit=0)
    async with (  # the server ends before the worker, which would wait for its connections
        child(worker_command, folder / "restate-worker.log") as worker,
        child([server, "--no-logo"], folder / "restate-server.log", settings(folder, ingress, admin)) as engine,
        aiohttp.ClientSession(
            f"http://127.0.0.1:{ingress}", connector=connections, timeout=aiohttp.ClientTimeout(total=None)
        ) as session,
    ):
        for process, at in ((engine, ingress), (engine, admin), (worker, port)):
            await listening(process, at)
        await introduce(session, admin, port)
        processes = {"engine": engine.pid, "worker": worker.pid}
        await serve(Restate(session), {"idle": Idle(engine.pid)}, processes)


if __name__ == "__main__":
    uvloop.run(drive(sys.argv[1], Path(sys.argv[2])))
