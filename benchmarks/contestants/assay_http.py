"""assay as a server: `assay_http <folder>` starts `assay serve` and `assay run` beside itself, and is the client."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import uvloop

import assay
from benchmarks.contestants.assay_workflows import app
from benchmarks.contestants.children import child, free_port, listening
from benchmarks.contestants.session import serve
from benchmarks.idle import Idle
from benchmarks.workloads import Engine


class Assay(Engine):
    """See `Engine`."""

    def __init__(self, client: assay.Client) -> None:
        self._client = client

    async def start(self, kind: str, workflow_id: str, argument: dict[str, Any]) -> Any:
        """See `Engine`."""
        return await self._client.start(_name(kind, argument), argument, workflow_id=workflow_id)

    async def result(self, handle: Any) -> Any:
        """See `Engine`."""
        return await handle.result()

    async def signal(self, handle: Any, value: Any) -> None:
        """See `Engine`."""
        await handle.signal("go", value)

    async def execute(self, kind: str, workflow_id: str, argument: dict[str, Any]) -> Any:
        """See `Engine`: one request."""
        return await self._client.run(_name(kind, argument), argument, workflow_id=workflow_id)


def _name(kind: str, argument: dict[str, Any]) -> str:
    return f"{kind}_{argument['style']}"


async def drive(folder: str, *flags: str) -> None:
    """Be asked, with an engine and a worker beside; `flags` are further ones of `assay serve`."""
    place, port = Path(folder), free_port()
    url = f"http://127.0.0.1:{port}"
    engine_command = ["-m", "assay.cli.main", "serve", "--port", str(port), "--backend", f"sqlite://{place}/assay.db"]
    engine_command += flags
    workflows = Path(__file__).with_name("assay_workflows.py")
    worker_command = ["-m", "assay.cli.main", "run", str(workflows), "--engine-url", url]
    async with child([sys.executable, *engine_command], place / "assay-engine.log") as engine:
        await listening(engine, port)
        async with (
            child([sys.executable, *worker_command], place / "assay-worker.log") as worker,
            await assay.Client.connect(url, app=app) as client,
        ):
            processes = {"engine": engine.pid, "worker": worker.pid}
            await serve(Assay(client), {"idle": Idle(engine.pid)}, processes)


if __name__ == "__main__":
    uvloop.run(drive(*sys.argv[1:]))
