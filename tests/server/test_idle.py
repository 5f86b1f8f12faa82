"""What an engine costs that has a worker and nothing to do."""

import subprocess
import threading
from pathlib import Path

import pytest

from tests.api.support import Worker, complete, serving

WATCHED_SECONDS = 17
"""Longer than the pause between two writings of signs of life, where they are written on their own."""
MEGABYTES = 100


def last_written(folder: Path) -> dict[str, int]:
    """When each file of the database was last changed; what readers share beside it is memory."""
    return {file.name: file.stat().st_mtime_ns for file in folder.glob("*.db*") if not file.name.endswith("-shm")}


def megabytes(pid: int) -> float:
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)  # noqa: S603, S607
    return int(done.stdout) / 1024


@pytest.mark.quiet
@pytest.mark.timeout(WATCHED_SECONDS + 60)
def test_an_idle_engine_leaves_the_disk_alone_and_stays_small(tmp_path: Path):
    with serving(tmp_path) as server:
        http = server.http()
        worker = Worker(http)
        worker.turn(http.start()["workflow_id"], complete())
        before = last_written(tmp_path)
        for _ in range(WATCHED_SECONDS):
            assert http.post("/workers/heartbeat", {"worker_id": worker.id}).status == 200
            assert worker.task() is None
            threading.Event().wait(1)
        assert last_written(tmp_path) == before
        assert megabytes(server.process.pid) < MEGABYTES
        assert [found["id"] for found in http.get("/workers").json()] == [worker.id]
