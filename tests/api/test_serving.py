import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.api.support import Http, NotStarted, Server, Worker, complete, holds, serving


def run(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "assay.cli.main", "serve", *arguments]
    inherited = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **environment}
    return subprocess.run(command, cwd=folder, env=inherited, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603


def test_it_says_where_everything_is(tmp_path):
    with serving(tmp_path) as server:
        text = "\n".join(server.greeting)
        assert f"http://127.0.0.1:{server.port}/api/v1" in text
        assert f"http://127.0.0.1:{server.port}/api/v1/docs" in text
        assert str(tmp_path / "assay-workflow.db") in text
        assert server.http().get("/health").status == 200


@pytest.mark.parametrize("how", ["--backend", "DATABASE_URL"])
@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite://w.db", "w.db"),
        ("sqlite://w.db?mode=rwc", "w.db"),
        ("w.db", "w.db"),
        ("sqlite://{folder}/a.db", "a.db"),
    ],
)
def test_the_database_is_where_the_url_says(tmp_path, how: str, url: str, file: str):
    url = url.format(folder=tmp_path)
    arguments = ["--backend", url] if how == "--backend" else []
    environment = {"DATABASE_URL": url} if how == "DATABASE_URL" else {}
    with serving(tmp_path, *arguments, **environment) as server:
        assert (tmp_path / file).exists()
        assert str(tmp_path / file) in "\n".join(server.greeting)


@pytest.mark.quiet
def test_it_starts_fast(tmp_path):
    with serving(tmp_path):
        pass
    began = time.monotonic()
    with serving(tmp_path) as server:
        assert server.http().get("/health").status == 200
        taken = time.monotonic() - began
    assert taken < 5, taken


def test_sigterm_stops_it_at_once_and_loses_nothing(tmp_path):
    server = Server(tmp_path)
    http = server.http()
    worker = Worker(http)
    found: list[object] = []
    polling = threading.Thread(target=lambda: found.append(worker.activity(wait_secs=25)))
    results: list[int] = []
    name = http.start()["workflow_id"]
    waiting = threading.Thread(
        target=lambda: results.append(server.http().get(f"/workflows/{name}/result?wait_secs=25").status)
    )
    polling.start()
    waiting.start()
    holds(http, 1)
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 5
    polling.join()
    waiting.join()
    assert (found, results) == ([None], [202])
    server.close()
    with serving(tmp_path) as again:
        assert again.http().describe(name)["status"] == "PENDING"


def test_ctrl_c_is_the_same(tmp_path):
    server = Server(tmp_path)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(10) == 0
    server.close()


@pytest.mark.quiet
def test_a_second_engine_is_refused_at_once(tmp_path):
    with serving(tmp_path) as first:
        began = time.monotonic()
        with pytest.raises(NotStarted) as refused:
            Server(tmp_path)
        assert time.monotonic() - began < 10
        assert refused.value.code == 1
        assert "in use by process" in refused.value.output
        assert f"{first.process.pid}" in refused.value.output


def test_it_starts_at_once_after_a_kill(tmp_path):
    server = Server(tmp_path)
    name = server.http().start(input={"n": 1})["workflow_id"]
    worker = Worker(server.http())
    assert worker.task() is not None
    server.kill()
    server.close()
    with serving(tmp_path) as again:
        http = again.http()
        worker.http = http
        assert http.describe(name)["input"] == {"n": 1}
        assert worker.commands(name, complete("done")).status == 200
        assert http.describe(name)["result"] == "done"


def test_a_port_in_use_is_a_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run(tmp_path, "--port", str(taken.getsockname()[1]))
    assert result.returncode == 1
    assert "cannot listen" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.test"])  # noqa: S104  # refused, which is the test
def test_others_are_let_in_only_on_purpose(tmp_path, host: str):
    result = run(tmp_path, "--host", host, "--port", "0")
    assert result.returncode == 64
    assert "--no-auth" in result.stderr
    assert not list(tmp_path.iterdir())


def test_all_addresses_on_purpose(tmp_path):
    with serving(tmp_path, "--host", "0.0.0.0", "--no-auth", "--allowed-host", "engine.test") as server:  # noqa: S104
        http: Http = server.http()
        assert "no authentication" in "\n".join(server.greeting)
        assert http.get("/health").json()["auth"] == "none"
        assert http.send("GET", "/health", Host="192.168.1.5:8080").status == 200
        assert http.send("GET", "/health", Host="engine.test").status == 200
        assert http.send("GET", "/health", Host="evil.example").status == 421


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--port", "many"], 64),
        (["--colour", "blue"], 64),
        (["--backend", "mysql://x"], 1),
        (["--backend", "sqlite:///no/such/folder/x.db"], 1),
        (["--backend", "postgres://nobody@127.0.0.1:1/none"], 1),
    ],
)
def test_mistakes_are_sentences(tmp_path, arguments: list[str], code: int):
    result = run(tmp_path, "--port", "0", *arguments) if "--port" not in arguments else run(tmp_path, *arguments)
    assert result.returncode == code, result.stderr
    assert result.stderr.strip()
    assert "Traceback" not in result.stderr


def test_a_bad_environment_is_a_sentence(tmp_path):
    result = run(tmp_path, "--port", "0", ASSAY_WF_DISPATCH_TIMEOUT_SECS="soon")
    assert result.returncode == 1
    assert "ASSAY_WF_DISPATCH_TIMEOUT_SECS" in result.stderr


def test_no_migrate_refuses_an_old_schema(tmp_path):
    with pytest.raises(NotStarted) as refused:
        Server(tmp_path, "--no-migrate")
    assert re.search(r"assay migrate", refused.value.output)


def test_storage_that_fails_ends_the_engine(tmp_path):
    """The engine logs an I/O error and stops, because the state of the disk is unknown."""
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000)); "
    program = limit + "from assay.cli.main import main; main(sys.argv[1:])"
    server = Server(tmp_path, python=("-c", program))
    try:
        http = server.http()
        statuses = []
        while server.process.poll() is None and len(statuses) < 200:
            try:
                statuses.append(http.post("/workflows", {"workflow_type": "Order", "input": "x" * 50_000}).status)
            except OSError:
                break
        assert server.process.wait(15) == 74
        assert set(statuses) <= {201, 503}
        assert "the engine stopped" in server.errors.read_text()
    finally:
        server.close()


@pytest.mark.quiet
def test_an_idle_engine_is_small_and_still(tmp_path):
    import psutil

    with serving(tmp_path) as server:
        server.http().get("/health")
        process = psutil.Process(server.process.pid)
        wal = tmp_path / "assay-workflow.db-wal"
        before, size = process.cpu_times(), wal.stat().st_size
        threading.Event().wait(3)
        after = process.cpu_times()
        assert process.memory_info().rss < 100 * 1024 * 1024
        assert wal.stat().st_size == size
        assert (after.user + after.system) - (before.user + before.system) < 0.15
