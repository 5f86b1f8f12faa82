"""Run a workflow from start to end with a client that a public generator made from the OpenAPI document."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.support import Server, fresh

DESCRIPTION = Path(__file__).parents[2] / "docs/reference/openapi.json"
PACKAGE = "assay_workflow_api_client"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory):
    """The generated package, importable."""
    folder = tmp_path_factory.mktemp("generated")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(DESCRIPTION)]
    settings = folder / "settings.yaml"
    settings.write_text("post_hooks: []\n")
    subprocess.run(  # noqa: S603
        [*command, "--output-path", str(folder / "client"), "--config", str(settings), "--fail-on-warning"],
        check=True,
        capture_output=True,
    )
    sys.path.insert(0, str(folder / "client"))
    yield
    sys.path.remove(str(folder / "client"))


def part(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


class Caller:
    """A program with the generated client: it starts runs and is the worker of their queue."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.models = part("models")
        self.queue = fresh("queue")
        body = self.models.RegisterBody(identity="generated", queue=self.queue)
        self.worker_id = self("workers.register_worker", body=body).worker_id

    def __call__(self, operation: str, **parameters: Any) -> Any:
        return part(f"api.{operation}").sync(client=self._client, **parameters)

    def start(self, **fields: Any) -> Any:
        body = self.models.StartBody(workflow_type="Order", workflow_id=fresh(), task_queue=self.queue, **fields)
        return self("workflows.start_workflow", body=body)

    def poll(self, kind: str) -> Any:
        body = self.models.PollBody(queue=self.queue, worker_id=self.worker_id)
        return self(f"worker_protocol.poll_{kind}_task", body=body)

    def turn(self, name: str, *commands: Any) -> Any:
        """Do the task of a run."""
        task = self.poll("workflow")
        assert task.workflow_id == name
        body = self.models.CommandsBody(worker_id=self.worker_id, commands=list(commands))
        assert self("worker_protocol.submit_commands", workflow_id=name, body=body) is None
        return task


@pytest.fixture
def caller(generated: None, server: Server) -> Iterator[Caller]:
    with part("client").Client(f"http://127.0.0.1:{server.port}") as client:
        yield Caller(client)


def test_a_generated_client_runs_a_workflow(caller: Caller):
    started = caller.start(input_={"n": 1})
    name = started.workflow_id
    assert started.started is True
    task = caller.turn(name, caller.models.CompleteWorkflow(type_="CompleteWorkflow", result={"total": 7}))
    assert (task.history[0].event_type, task.history[0].payload) == ("WorkflowStarted", {"n": 1})
    result = caller("workflows.get_result", workflow_id=name)
    assert (result.status.value, result.result) == ("COMPLETED", {"total": 7})


def test_a_generated_client_reads_typed_events(caller: Caller):
    models, name = caller.models, caller.start(input_={"n": 1}, memo={"by": "test"}).workflow_id
    charge = {"seq": 1, "name": "charge", "task_queue": caller.queue, "max_attempts": 1}
    caller.turn(name, models.ScheduleActivity(type_="ScheduleActivity", **charge))
    attempt = caller.poll("activity")
    caller("worker_protocol.fail_task", task_id=attempt.id, body=models.FailBody(error="broken"))
    task = caller.turn(name, models.FailWorkflow(type_="FailWorkflow", error="no"))
    assert [type(event) for event in task.history] == [
        models.WorkflowStartedEvent,
        models.ActivityScheduledEvent,
        models.ActivityFailedEvent,
    ]
    started, scheduled, failed, end = caller("workflows.list_events", workflow_id=name)
    assert isinstance(started, models.WorkflowStartedRecord)
    assert (started.payload, started.workflow_type, started.memo) == ({"n": 1}, "Order", {"by": "test"})
    assert isinstance(scheduled.payload, models.ActivityScheduledPayload)
    assert scheduled.payload.options.retry_policy.maximum_attempts == 1
    assert isinstance(failed.payload, models.ActivityFailedPayload)
    assert (failed.payload.error, failed.payload.failure.kind) == ("broken", models.Kind.UNKNOWN)
    assert isinstance(end, models.WorkflowFailedRecord)
    assert (end.seq, end.event_type, end.payload.error) == (4, "WorkflowFailed", "no")


def test_a_generated_client_bears_events_of_a_later_version(caller: Caller):
    caller.start()
    sent = caller.poll("workflow").to_dict()
    sent["history"].append({**sent["history"][0], "seq": 2, "event_type": "ThingHappened", "payload": {"x": 1}})
    first, other = caller.models.WorkflowTask.from_dict(sent).history
    assert isinstance(first, caller.models.WorkflowStartedEvent)
    assert isinstance(other, caller.models.OtherEvent)
    assert (other.event_type, other.payload) == ("ThingHappened", {"x": 1})


def test_a_generated_client_reads_typed_errors(caller: Caller):
    models = caller.models
    missing = caller("workflows.get_workflow", workflow_id="nobody")
    assert isinstance(missing, models.Problem)
    assert (missing.code, missing.kind) == (models.ErrorCode.NOT_FOUND, models.Kind.NOT_FOUND)
    assert missing.error == "not found: workflow nobody"
    later = models.Problem.from_dict({"error": "no", "code": "brand_new", "kind": "INVALID"})
    assert (later.code, later.kind) == ("brand_new", models.Kind.INVALID)


def test_a_generated_client_reads_errors_that_are_nobodys_own(generated: None, server: Server):
    with part("client").Client(f"http://127.0.0.1:{server.port}", headers={"Host": "evil.example"}) as client:
        refusal = part("api.meta.get_health").sync(client=client)
    assert refusal.code is part("models").ErrorCode.WRONG_HOST
