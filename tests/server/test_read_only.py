"""`assay serve --read-only` over real HTTP, beside a program in another process that embeds its engine."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import websockets

from assay.api.router import PREFIXES
from assay.api.routes.table import ROUTES
from tests.api.support import Http, Listener, Server, serving

LIVE = [sys.executable, "-m", "tests.embedded.live_program"]
SENTENCE = "changes need the engine that uses it"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that waits for a line."""
    with subprocess.Popen(  # noqa: S603
        [*LIVE, str(tmp_path / "app.db")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.fixture
def server(program: subprocess.Popen[str], tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, "--read-only", "--backend", "sqlite://app.db") as server:
        yield server


@pytest.fixture
def http(server: Server) -> Http:
    return server.http()


def go(program: subprocess.Popen[str]) -> None:
    """Let the program finish its workflow."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("go\n")
    program.stdin.flush()
    assert program.stdout.readline() == "done\n"


def test_it_shows_what_the_program_does(server: Server, http: Http, program: subprocess.Popen[str]):
    assert any("only read" in line for line in server.greeting)
    ready = http.raw("GET", "/readyz")
    assert (ready.status, ready.json()["read_only"]) == (200, True)
    assert "read_only" not in http.get("/health").json()
    assert {run["id"] for run in http.get("/workflows").json()} == {"greet-1", "approval-1", "child-1"}
    assert http.get("/workflows/approval-1/state/stage").json()["value"] == "waiting"
    listener = Listener(server.port)
    go(program)
    assert listener.wait("workflow_completed")[0]["data"]["workflow_id"] == "approval-1"
    listener.close()
    assert http.get("/workflows/approval-1/result?wait_secs=10").json()["result"] == "yes"
    assert http.get("/schedules").json()[0]["name"] == "nightly"


def test_a_result_is_waited_for(http: Http, program: subprocess.Popen[str]):
    assert http.get("/workflows/approval-1/result?wait_secs=0").status == 202
    go(program)
    assert http.get("/workflows/approval-1/result?wait_secs=20").json()["status"] == "COMPLETED"


def test_every_route_that_changes_anything_is_refused(server: Server, http: Http):
    in_memory = {"signIn", "signOut", "issueTicket"}  # sessions and tickets, which this process keeps by itself
    harmless = in_memory | {"previewCron"}
    changing = [route for route in ROUTES if route.method != "GET" and route.operation_id not in harmless]
    assert len(changing) > 20
    for route in changing:
        for prefix in PREFIXES if route.prefixed else ("",):
            path = prefix + route.path.replace("{", "").replace("}", "")
            refused = http.raw(route.method, path, b"{}", {"Content-Type": "application/json"})
            assert (refused.status, refused.json()["code"]) == (403, "read_only"), (route.path, refused)
            assert SENTENCE in refused.json()["error"]

    async def worker() -> int:
        try:
            await websockets.connect(f"ws://127.0.0.1:{server.port}{PREFIXES[0]}/workers/w-1/exchange")
        except websockets.InvalidStatus as refusal:
            return refusal.response.status_code
        return 0

    assert asyncio.run(worker()) == 403
    assert http.post("/nothing", {}).status == 404


def test_only_a_file_that_is_there_can_be_read(tmp_path: Path):
    for url, sentence in (("sqlite://none.db", "there is no file"), ("postgres://h/d", "start another engine instead")):
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "assay", "serve", "--port", "0", "--read-only", "--backend", url],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (done.returncode, sentence in done.stderr) == (1, True), done.stderr
    assert list(tmp_path.iterdir()) == []
