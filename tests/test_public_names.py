import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import assay
from assay import workflow

PUBLIC = [
    "DEFAULT_VERSION",
    "ActivityContext",
    "ActivityError",
    "ActivityRecord",
    "AlreadyExists",
    "App",
    "AssayError",
    "AsyncRunList",
    "AuditEntryRecord",
    "BlockingChild",
    "BlockingContext",
    "BlockingRunList",
    "CancelRequested",
    "Channel",
    "ChannelClosed",
    "ChildError",
    "ChildHandle",
    "Client",
    "Context",
    "Ctx",
    "Event",
    "EventKind",
    "EventRecord",
    "Failure",
    "FailureRecord",
    "FireRecord",
    "Handle",
    "Invalid",
    "Kind",
    "LinkedFailure",
    "Message",
    "NamespaceRecord",
    "NamespaceStatsRecord",
    "NonDeterminismError",
    "NotFound",
    "Page",
    "PermissionDenied",
    "QueryRecord",
    "QueueRecord",
    "Record",
    "Retry",
    "RetryPolicyRecord",
    "RetryRecord",
    "RunList",
    "RunawayError",
    "ScheduleRecord",
    "StartRecord",
    "StateRecord",
    "StuckRecord",
    "Unavailable",
    "UnsupportedVersion",
    "WaitRecord",
    "WaitingOnRecord",
    "WaitingRecord",
    "Worker",
    "WorkerRecord",
    "WorkflowCancelled",
    "WorkflowFailed",
    "WorkflowRecord",
    "WorkflowTerminated",
    "WorkflowTimedOut",
    "__version__",
    "version",
    "workflow",
]
WORKFLOW = [
    "activity",
    "cancel",
    "close",
    "connect",
    "continue_as_new",
    "define",
    "describe",
    "exec",
    "get_events",
    "get_state",
    "list",
    "list_children",
    "list_runs",
    "listen",
    "namespaces",
    "query",
    "queues",
    "result",
    "retry",
    "run",
    "schedules",
    "send",
    "session",
    "signal",
    "spawn",
    "start",
    "terminate",
    "update",
    "workers",
]
IMPORT_MILLISECONDS = 120

MEASURE = """
import sys, time
begin = time.process_time()
{statement}
print((time.process_time() - begin) * 1000)
print(" ".join(sys.modules))
"""


def imported(statement: str, compiled: Path) -> tuple[float, set[str]]:
    """The processor time of a statement in a fresh interpreter, and the modules it leaves loaded."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(  # noqa: S603 - our own text
        [sys.executable, "-c", MEASURE.format(statement=statement)],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, "PYTHONPYCACHEPREFIX": str(compiled)},
    )
    took, modules = done.stdout.splitlines()
    return float(took), set(modules.split())


def test_the_public_names_are_frozen():
    assert assay.__all__ == PUBLIC
    assert workflow.__all__ == WORKFLOW


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(name: str):
    assert getattr(assay, name) is getattr(assay, name)
    assert name in dir(assay)


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="'Workflows'"):
        _ = assay.Workflows


def test_the_errors_form_the_tree_of_r24():
    for error in ("ActivityError", "ChildError", "WorkflowFailed", "WorkflowCancelled", "WorkflowTimedOut"):
        assert issubclass(getattr(assay, error), assay.Failure)
    for error in ("AlreadyExists", "NotFound", "Invalid", "NonDeterminismError", "Unavailable", "Failure"):
        assert issubclass(getattr(assay, error), assay.AssayError)
    assert not issubclass(assay.CancelRequested, Exception)


def test_the_version_is_that_of_the_distribution():
    assert assay.__version__ == version("assay-workflow")


@pytest.mark.parametrize("statement", ["import assay", "from assay import workflow"])
def test_importing_is_light(statement: str, tmp_path: Path):
    measured = [imported(statement, tmp_path) for _ in range(5)]  # the first one compiles
    assert min(took for took, _ in measured) < IMPORT_MILLISECONDS
    loaded = measured[0][1]
    assert not loaded & {"asyncio", "apsw", "asyncpg", "uvloop", "greenlet", "click", "assay.engine", "assay.storage"}


def test_an_import_changes_no_logging_and_no_signals():
    text = """
import logging, signal
before = logging.root.handlers[:], signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
from assay import workflow, Client, Worker
assert before == (logging.root.handlers[:], signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
"""
    subprocess.run([sys.executable, "-c", text], check=True)  # noqa: S603 - our own text
