import copy
import pickle

import msgspec
import pytest

from assay.core.model import errors
from assay.core.model.errors import (
    ActivityError,
    AlreadyExists,
    AssayError,
    ChildError,
    Failure,
    Invalid,
    Kind,
    NonDeterminismError,
    NotFound,
    Refused,
    Unavailable,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from assay.core.model.failure import FailureInfo
from assay.core.model.payload import NULL, Payload

FAILURES = [Failure, ActivityError, ChildError, WorkflowFailed, WorkflowCancelled, WorkflowTerminated, WorkflowTimedOut]
OTHERS = [AlreadyExists, NotFound, Invalid, NonDeterminismError, Unavailable, Refused]
CAUSE = Failure("disk full", kind=Kind.UNAVAILABLE)
SAMPLES = [
    AssayError("odd"),
    Failure("no", kind=Kind.CONFLICT, retryable=False, details={"a": [1]}, type="Odd", stack="at x", cause=CAUSE),
    ActivityError("declined", activity="charge", attempts=3, retry_state="maximum_attempts", details=1, cause=CAUSE),
    ChildError("gone", workflow_id="c-1", run_id="r", workflow_type="Child", kind=Kind.CANCELED),
    WorkflowFailed("boom", workflow_id="w-1", run_id="r"),
    WorkflowCancelled("stop", workflow_id="w-1", run_id="r"),
    WorkflowTerminated("operator", workflow_id="w-1", run_id="r"),
    WorkflowTimedOut("late", workflow_id="w-1", run_id="r"),
    AlreadyExists("in use", existing={"workflow_id": "w-1", "run_id": "r", "status": "RUNNING"}),
    NotFound("no workflow 'w-1'"),
    Invalid("bad", field="input.a", code="nul_character"),
    NonDeterminismError(step=3, expected="ActivityScheduled 'a'", found="TimerStarted"),
    Unavailable("no answer"),
    Refused("late", code="stale_task"),
]


def pickled(error: AssayError) -> AssayError:
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes


def test_a_failure_is_made_of_what_can_be_recorded():
    failure = Failure(ValueError("boom"), retryable=0, type=ValueError, stack=3)
    assert (failure.message, failure.args, str(failure)) == ("boom", ("boom",), "boom")
    assert (failure.retryable, failure.type, failure.stack) == (False, "ValueError", "3")
    assert Failure("no", retryable=1).retryable is True


@pytest.mark.parametrize("value", ["no", 2, 0.5, [], object()])
def test_a_failure_is_retryable_or_not_or_says_nothing(value):
    with pytest.raises(Invalid, match="retryable is True, False or None"):
        Failure("no", retryable=value)


def test_the_tree_is_the_one_of_r24():
    assert all(issubclass(one, Failure) for one in FAILURES)
    assert all(issubclass(one, AssayError) and not issubclass(one, Failure) for one in OTHERS)


def test_the_drawing_names_every_class():
    drawn = errors.__doc__
    public = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, AssayError)}
    assert {name for name in public if not name.startswith("_") and name not in drawn} == set()


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("clone", [pickled, copy.copy, copy.deepcopy])
def test_every_error_survives_pickle_and_copy(error, clone):
    twin = clone(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    fields = {name: value for name, value in vars(error).items() if name != "cause"}
    assert {name: value for name, value in vars(twin).items() if name != "cause"} == fields
    assert str(getattr(twin, "cause", None)) == str(getattr(error, "cause", None))
    assert str(twin.__cause__) == str(error.__cause__)


@pytest.mark.parametrize("one", [AssayError, *FAILURES, *OTHERS])
def test_every_class_has_a_code_of_its_own_and_needs_a_message_only(one):
    codes = [other.code for other in [AssayError, *FAILURES, *OTHERS]]
    error = one("told")
    assert codes.count(error.code) == 1
    assert error.code == error.code.lower()
    assert (error.message, str(error)) == ("told", "told")
    assert isinstance(error.kind, Kind)


def test_sentences_name_what_failed():
    messages = {type(error): str(error) for error in SAMPLES}
    assert messages[ActivityError] == "activity 'charge' failed after 3 attempts: declined"
    assert messages[ChildError] == "child workflow 'c-1' did not complete: gone"
    assert messages[WorkflowTimedOut] == "workflow 'w-1' timed out: late"
    assert messages[NonDeterminismError] == "step 3: the history says ActivityScheduled 'a', the code did TimerStarted"


def test_kinds_by_default():
    assert Failure("x").kind is Kind.INTERNAL
    assert WorkflowFailed("x").kind is Kind.INTERNAL
    assert WorkflowCancelled("x").kind is Kind.CANCELED
    assert WorkflowTerminated("x").kind is Kind.CANCELED
    assert WorkflowTimedOut("x").kind is Kind.TIMEOUT
    assert WorkflowFailed("x", kind="RateLimited").kind is Kind.RATE_LIMITED
    assert Refused("x").kind is Kind.CONFLICT


def test_a_cause_shows_in_the_traceback():
    assert Failure("x", cause=CAUSE).__cause__ is CAUSE


@pytest.mark.parametrize("kind", list(Kind))
def test_a_kind_equals_both_spellings(kind):
    pascal = kind.pascal
    assert kind == kind.value == str(kind)
    assert kind == pascal
    assert pascal == kind
    assert (kind != pascal) is False
    assert (pascal != kind) is False
    assert kind != kind.value.lower()
    assert hash(kind) == hash(kind.value)
    assert {kind: 1}[kind.value] == 1
    assert {Kind.parse(text) for text in (kind.value, pascal, kind.value.lower().replace("_", "-"))} == {kind}


def test_kinds_spell_as_in_the_contract():
    spelled = " ".join(kind.pascal for kind in Kind)
    assert spelled == (
        "Unknown NotFound AlreadyExists Invalid PermissionDenied Unavailable Internal "
        "Canceled Conflict Timeout RateLimited"
    )


@pytest.mark.parametrize("text", ["", "nonsense", "Not", "NOTFOUND", "\0"])
def test_an_unknown_kind_is_unknown(text):
    assert Kind.parse(text) is Kind.UNKNOWN
    assert Kind(text) is Kind.UNKNOWN


def test_two_kinds_differ():
    assert Kind.INVALID != Kind.INTERNAL
    assert Kind.parse("Cancelled") is Kind.CANCELED


def test_a_failure_on_the_wire_leaves_out_what_it_does_not_say():
    info = FailureInfo(kind=Kind.NOT_FOUND, message="gone")
    assert msgspec.json.encode(info) == b'{"kind":"NOT_FOUND","message":"gone"}'
    assert info.details == NULL


def test_a_failure_reads_back_with_its_causes():
    cause = FailureInfo(kind=Kind.INTERNAL, message="disk", details=Payload(b'{"n":123456789012345678901234567890}'))
    info = FailureInfo(
        kind=Kind.TIMEOUT, message="late", retryable=False, type="T", stack="s", cause=cause, source="activity",
        retry_state="timeout", timeout_type="heartbeat",
    )  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(info), type=FailureInfo) == info


def test_a_failure_of_another_version_can_be_read():
    info = msgspec.json.decode(b'{"kind":"NotFound","new":1,"cause":{"kind":"BRAND_NEW"}}', type=FailureInfo)
    assert info.kind is Kind.NOT_FOUND
    assert info.cause.kind is Kind.UNKNOWN
