"""The engine's end of the protocol: what it sends of a run's history."""

from typing import Any

from assay.core.model.events import Recorded, SignalReceived, StartData, WorkflowStarted, WorkflowTerminated
from assay.core.model.grants import TaskGrant
from assay.core.model.ids import Namespace, RunId, RunKey, WorkflowId
from assay.core.model.payload import NULL
from assay.worker_protocol import messages as wire
from assay.worker_protocol.engine_side import EngineEndpoint
from assay.worker_protocol.tokens import PlainLeases

KEY = RunKey(Namespace("main"), WorkflowId("w"), RunId("r"))
START = StartData("W", "default", RunId("r"))


class QuietEngine:
    """An engine, and a reader of its store, with nothing to do."""

    def now(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def test_events_recorded_after_the_lease_are_not_part_of_its_task():
    """The run may have been terminated while its events were read: its end is no event that code can follow."""
    quiet: Any = QuietEngine()
    endpoint = EngineEndpoint(quiet, quiet, PlainLeases(), "main", "w-1")
    endpoint.begin_hello(wire.Hello(queue="default", namespace="main"))
    endpoint.end_hello()
    events = [
        Recorded(1, 0, WorkflowStarted(NULL, START)),
        Recorded(2, 0, SignalReceived("go", NULL)),
        Recorded(3, 0, WorkflowTerminated()),
    ]
    endpoint.task_loaded(TaskGrant(KEY, START, 1, 0, 2, 0, None), 0, events, endpoint.hellos)
    (task,) = endpoint.outgoing.compose().tasks
    assert [event.seq for event in task.events or ()] == [1, 2]
