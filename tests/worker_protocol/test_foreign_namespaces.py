"""Namespaces that commands name beside the worker's own."""

from assay.core.model.commands import AnyCommand, CompleteWorkflow, SendMessage, StartChildWorkflow
from assay.core.model.ids import RunId, WorkerId
from assay.core.model.requests import Advance
from assay.worker_protocol.foreign_namespaces import restricted


def turn(*commands: AnyCommand) -> Advance:
    return Advance(RunId("r"), WorkerId("w"), 1, 1, commands)


def test_a_turn_without_foreign_names_is_left_alone():
    plain = turn(CompleteWorkflow())
    assert restricted(plain, "shop", lambda _: False) is plain
    own = turn(StartChildWorkflow(workflow_type="T", workflow_id="c"), SendMessage(1, "wf://shop/x", "t"))
    assert restricted(own, "shop", lambda _: False) is own


def test_names_without_permission_are_denied():
    asked = turn(
        StartChildWorkflow(workflow_type="T", workflow_id="c", namespace="a"),
        StartChildWorkflow(workflow_type="T", workflow_id="d", namespace="b"),
        StartChildWorkflow(workflow_type="T", workflow_id="e", namespace="shop"),
        SendMessage(1, "wf://c/x", "t"),
        SendMessage(2, "nonsense", "t"),
    )
    assert restricted(asked, "shop", lambda name: name == "b").denied == {"a", "c"}
