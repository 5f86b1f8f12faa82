"""The worker in plain urllib runs the conversations of the original, and leaves the histories that they must leave."""

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tests.api.support import Http, Server, fresh

WORKER = Path(__file__).parents[2] / "examples" / "any-language" / "worker.py"

HELLO = ["WorkflowStarted", "ActivityScheduled", "ActivityCompleted", "WorkflowCompleted"]
APPROVAL = [
    "WorkflowStarted", "ActivityScheduled", "ActivityCompleted", "WorkflowAwaitingSignal", "SignalReceived",
    "ActivityScheduled", "ActivityCompleted", "WorkflowCompleted",
]  # fmt: skip
NIGHTLY = [
    "WorkflowStarted", "SideEffectRecorded", "ActivityScheduled", "ActivityCompleted",
    *["ChildWorkflowStarted", "ChildWorkflowCompleted"] * 3, "WorkflowCompleted",
]  # fmt: skip


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("any_language_worker", WORKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def worker(server: Server, example: ModuleType):
    return example.Worker(example.Engine(f"http://127.0.0.1:{server.port}"))


def work(worker) -> int:
    """Until there is nothing to do; the number of HTTP calls without the idle ones."""
    before = worker.engine.calls
    while worker.step():
        pass
    return worker.engine.calls - before - 3


def test_hello(http: Http, worker):
    name = http.start(workflow_type="GreetWorkflow", input={"who": "world"})["workflow_id"]
    assert work(worker) == 10
    assert http.kinds(name) == HELLO
    assert http.describe(name)["result"] == {"greeting": "hello, world"}


def test_approval(http: Http, worker):
    name = http.start(workflow_type="ApproveAndDeploy", input={"git_sha": "abc"})["workflow_id"]
    work(worker)
    waiting = http.describe(name)["waiting_on"]
    assert (waiting["kind"], waiting["signal"], waiting["attention"]) == ("signal", "approve", "person")
    http.post(f"/workflows/{name}/signal/approve", {"payload": {"by": "alice"}})
    work(worker)
    assert http.kinds(name) == APPROVAL
    assert http.describe(name)["result"]["approved_by"] == "alice"


def test_nightly(http: Http, worker):
    name = http.start(workflow_type="NightlyReport", input={"region": "eu-west-1"})["workflow_id"]
    assert work(worker) == 52
    assert http.kinds(name) == NIGHTLY
    result = http.describe(name)["result"]
    assert result["anomalies_handled"] == 3
    children = http.get(f"/workflows/{name}/children").json()
    assert [child["id"] for child in children] == [f"{result['report_id']}-anomaly-{n}" for n in (1, 2, 3)]
    assert {tuple(http.kinds(child["id"])) for child in children} == {tuple(HELLO)}


def test_a_failing_activity_fails_the_run(http: Http, worker, example: ModuleType, monkeypatch: pytest.MonkeyPatch):
    def break_down(_: object) -> None:
        raise ValueError("no greeting today")

    monkeypatch.setitem(example.ACTIVITIES, "greet", break_down)
    body = {"name": "greet", "seq": 1, "task_queue": "default", "max_attempts": 1}
    name = http.start(workflow_type="GreetWorkflow", input={"who": "x"})["workflow_id"]
    assert http.post(f"/workflows/{name}/activities", body).status == 201
    work(worker)
    record = http.describe(name)
    assert (record["status"], record["error"]) == ("FAILED", "no greeting today")


def test_a_cancelled_run_ends_as_cancelled(http: Http, worker):
    name = http.start(workflow_type="ApproveAndDeploy", input={"git_sha": "abc"})["workflow_id"]
    work(worker)
    http.post(f"/workflows/{name}/cancel")
    work(worker)
    assert http.describe(name)["status"] == "CANCELLED"


@contextmanager
def program(port: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, str(WORKER), f"http://127.0.0.1:{port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def greeted(http: Http) -> None:
    name = fresh()
    http.start(name, workflow_type="GreetWorkflow", input={"who": "you"})
    result = http.get(f"/workflows/{name}/result?wait_secs=20").json()
    assert result["result"] == {"greeting": "hello, you"}


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """How a program ended, the last line that it said, and what it complained of."""
    output, complained = process.communicate(timeout=20)
    return process.returncode, output.splitlines()[-1], complained


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_program_as_it_is_started_and_stopped(server: Server, http: Http, number: signal.Signals):
    with program(server.port) as process:
        assert process.stdout is not None
        assert "serves" in process.stdout.readline()
        greeted(http)
        process.send_signal(number)
        assert ended(process) == (0, "stopped", "")


def test_the_program_waits_for_an_engine_that_is_away(tmp_path: Path):
    first = Server(tmp_path)
    first.kill()
    first.close()
    with program(first.port) as process:
        assert process.stdout is not None
        assert "trying again in 1 s" in process.stdout.readline()
        second = Server(tmp_path, "--port", str(first.port))
        try:
            while "serves" not in (line := process.stdout.readline()):
                assert "trying again" in line
            greeted(second.http())
            second.kill()
            assert "trying again in 1 s" in process.stdout.readline()
            assert "trying again in 2 s" in process.stdout.readline()
        finally:
            second.close()
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "stopped", "")
