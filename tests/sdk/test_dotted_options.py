"""Options under dotted keys: their plain names, milliseconds, and the keys that are refused."""

from typing import Any

import pytest

from assay.core.model.errors import Invalid
from assay.core.model.options import choice
from assay.core.model.policies import IdConflict, IdReuse, ParentClose
from assay.sdk.dotted_options import plain_options


@pytest.mark.parametrize("prefix", ["", "temporal."])
def test_numbers_behind_dotted_keys_are_milliseconds(prefix: str):
    found = plain_options(
        {
            f"{prefix}workflow.id": "order-1",
            f"{prefix}workflow.execution_timeout": 60_000,
            f"{prefix}workflow.run_timeout": "1h30m",
            f"{prefix}workflow.start_delay": 250.5,
            f"{prefix}workflow.execution_error_when_already_started": False,
            f"{prefix}workflow.retry_policy": {"initialInterval": 500, "maximum_interval": "1m", "maximum_attempts": 3},
            f"{prefix}workflow.priority": {"priority_key": 2, "fairness_key": "x"},
            "memo": {"a": 1},
            "run_timeout_of_mine": 5,
        },
        "workflow",
    )
    assert found == {
        "id": "order-1",
        "execution_timeout": 60.0,
        "run_timeout": "1h30m",
        "start_delay": 0.2505,
        "error_if_exists": False,
        "retry_policy": {"initialInterval": 0.5, "maximum_interval": "1m", "maximum_attempts": 3},
        "priority": 2,
        "memo": {"a": 1},
        "run_timeout_of_mine": 5,
    }


def test_keys_of_activities():
    given = {
        "activity.start_to_close_timeout": 1_500,
        "temporal.activity.heartbeat_timeout": 100,
        "activity.retry_policy": {"initial_interval": 10},
        "activity.priority": 1,
        "temporal.activity.disable_eager_execution": True,
    }
    expected = {"start_to_close": 1.5, "heartbeat": 0.1, "retry_policy": {"initial_interval": 0.01}, "priority": 1}
    assert plain_options(given, "activity") == {**expected, "disable_eager_execution": True}


@pytest.mark.parametrize("turned", [False, True])
def test_the_key_without_the_prefix_is_used_if_both_are_given(turned: bool):
    pairs = [("temporal.workflow.id", "old"), ("workflow.id", "new")]
    assert plain_options(dict(reversed(pairs) if turned else pairs), "workflow") == {"id": "new"}


def test_keys_without_a_meaning_here_are_accepted():
    assert plain_options({"workflow.versioning_override": "auto_upgrade"}, "workflow") == {}


@pytest.mark.parametrize(
    ("options", "kind", "problem"),
    [
        ({"temporal.workflow.run_timeot": 1}, "workflow", "did you mean 'workflow.run_timeout'"),
        ({"workflow.nothing.like.it": 1}, "workflow", "there is no option"),
        ({"activity.start_to_close": 1}, "workflow", r"goes to ctx.activities"),
        ({"workflow.id": "x"}, "activity", "goes to with_options"),
        ({"workflow.run_timeout": True}, "workflow", "milliseconds"),
        ({"workflow.priority": {"fairness_key": 1}}, "workflow", "priority_key"),
        ({7: 1}, "workflow", "name of an option"),
        ([1], "workflow", "mapping"),
    ],
)
def test_unknown_and_misplaced_keys_are_refused(options: Any, kind: str, problem: str):
    with pytest.raises(Invalid, match=problem):
        plain_options(options, kind)


@pytest.mark.parametrize(
    ("value", "member"),
    [
        ("WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING", IdConflict.USE_EXISTING),
        (" Use-Existing ", IdConflict.USE_EXISTING),
        (1, IdConflict.FAIL),
        (2, IdConflict.USE_EXISTING),
        (3, IdConflict.TERMINATE_EXISTING),
        (0, IdConflict.FAIL),
        ("WORKFLOW_ID_CONFLICT_POLICY_UNSPECIFIED", IdConflict.FAIL),
        ("WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE", IdReuse.REJECT_DUPLICATE),
        (2, IdReuse.ALLOW_DUPLICATE_FAILED_ONLY),
        ("PARENT_CLOSE_POLICY_REQUEST_CANCEL", ParentClose.REQUEST_CANCEL),
        (2, ParentClose.ABANDON),
    ],
)
def test_protobuf_names_and_numbers_are_policies(value: Any, member: Any):
    defaults = {IdConflict: IdConflict.FAIL, IdReuse: IdReuse.ALLOW_DUPLICATE, ParentClose: ParentClose.TERMINATE}
    assert choice(type(member), value, "policy", defaults[type(member)]) is member


@pytest.mark.parametrize("value", [4, -1, True, "nothing", 1.5, "PARENT_CLOSE_POLICY_FAIL"])
def test_other_names_and_numbers_are_refused(value: Any):
    with pytest.raises(Invalid):
        choice(IdConflict, value, "policy", IdConflict.FAIL)
