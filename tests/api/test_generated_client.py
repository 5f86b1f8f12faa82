"""A client that a public generator made from our description runs a workflow from start to end (R41)."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.api.support import Server, fresh

DESCRIPTION = Path(__file__).parents[2] / "openapi.json"
PACKAGE = "assay_workflow_api_client"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory):
    """The generated package, importable."""
    folder = tmp_path_factory.mktemp("generated")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(DESCRIPTION)]
    settings = folder / "settings.yaml"
    settings.write_text("post_hooks: []\n")
    subprocess.run(  # noqa: S603
        [*command, "--output-path", str(folder / "client"), "--config", str(settings)],
        check=True,
        capture_output=True,
    )
    sys.path.insert(0, str(folder / "client"))
    yield
    sys.path.remove(str(folder / "client"))


def part(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


def test_a_generated_client_runs_a_workflow(generated: None, server: Server):
    client, models, name = part("client").Client(f"http://127.0.0.1:{server.port}"), part("models"), fresh()
    with client:
        start = models.StartBody(workflow_type="Order", workflow_id=name, input_={"n": 1})
        started = part("api.workflows.start_workflow").sync(client=client, body=start)
        assert (started.workflow_id, started.started) == (name, True)
        registering = models.RegisterBody(identity="generated", queue="default")
        worker = part("api.workers.register_worker").sync(client=client, body=registering)
        polling = models.PollBody(queue="default", worker_id=worker.worker_id)
        task = part("api.worker_protocol.poll_workflow_task").sync(client=client, body=polling)
        assert (task.workflow_id, task.history[0].event_type) == (name, "WorkflowStarted")
        done = models.CompleteWorkflow(type_="CompleteWorkflow", result={"total": 7})
        commands = models.CommandsBody(worker_id=worker.worker_id, commands=[done])
        reply = part("api.worker_protocol.submit_commands").sync_detailed(name, client=client, body=commands)
        assert reply.status_code == 200
        result = part("api.workflows.get_result").sync(workflow_id=name, client=client)
        assert (result.status.value, result.result) == ("COMPLETED", {"total": 7})
        missing = part("api.workflows.get_workflow").sync(workflow_id="nobody", client=client)
        assert (missing.code, missing.error) == ("not_found", "not found: workflow nobody")
