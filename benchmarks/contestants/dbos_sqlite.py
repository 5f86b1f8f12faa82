"""DBOS in its usual form, embedded and async, on a SQLite file: `dbos_sqlite <folder> <seconds between polls>`.

DBOS opens the file in rollback-journal mode, so it is switched to WAL beforehand: its faster setting. Its workflows
look for messages once in a polling interval, which only matters to W5.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from benchmarks.contestants.session import serve
from benchmarks.workloads import Engine


@DBOS.step()
async def step(a: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "i": a["i"]}


@DBOS.workflow()
async def one(a: dict[str, Any]) -> Any:
    return await step(a)


@DBOS.workflow()
async def seq(a: dict[str, Any]) -> Any:
    for _ in range(a["k"]):
        await step(a)
    return {"done": a["k"], "i": a["i"]}


@DBOS.workflow()
async def fan(a: dict[str, Any]) -> Any:
    results = await asyncio.gather(*(step(a) for _ in range(a["k"])))
    return {"done": len(results)}


@DBOS.workflow()
async def sig(a: dict[str, Any]) -> Any:
    return await DBOS.recv_async("go", timeout_seconds=120)


@DBOS.workflow()
async def timer(a: dict[str, Any]) -> Any:
    await DBOS.sleep_async(a["secs"])
    return {"i": a["i"]}


class Dbos(Engine):
    """See `Engine`."""

    kinds = {"one": one, "seq": seq, "fan": fan, "sig": sig, "timer": timer}  # noqa: RUF012  # never changed

    async def start(self, kind: str, workflow_id: str, argument: dict[str, Any]) -> Any:
        """See `Engine`."""
        with SetWorkflowID(workflow_id):
            return await DBOS.start_workflow_async(self.kinds[kind], argument)

    async def result(self, handle: Any) -> Any:
        """See `Engine`."""
        return await handle.get_result()

    async def signal(self, handle: Any, value: Any) -> None:
        """See `Engine`."""
        await DBOS.send_async(handle.workflow_id, value, "go")


def launch(folder: Path, poll_seconds: float) -> None:
    """Start DBOS on an empty file in WAL mode."""
    path = folder / "dbos.db"
    connection = sqlite3.connect(path)
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    assert mode == "wal", mode
    connection.close()
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{path}",
            "log_level": "ERROR",
            "enable_otlp": False,
            "application_version": "1",
            "notification_listener_polling_interval_sec": poll_seconds,
        }
    )
    DBOS.launch()


if __name__ == "__main__":
    launch(Path(sys.argv[1]), float(sys.argv[2]))
    asyncio.run(serve(Dbos()))
    sys.stdout.flush()
    os._exit(0)  # it leaves threads behind that would keep the process
