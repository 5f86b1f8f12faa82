import json
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.codec import UnknownEvent, check_failure, decode, encode, encode_uncertain
from assay.core.model import events as ev
from assay.core.model.errors import Invalid, Kind
from assay.core.model.events import KINDS, StartData
from assay.core.model.failure import FailureInfo
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import ParentClose, RetryPolicy
from tests.core.support import ONE, refused

DOCUMENTS = st.sampled_from([b"null", b"1", b'"\xc3\xa9"', b'{"a":[1.0,12345678901234567890]}', b"[]"]).map(Payload)
TEXTS = st.text(max_size=5)
SIMPLE = {
    int: st.integers(-(2**62), 2**62),
    str: TEXTS,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    NoneType: st.none(),
    Payload: DOCUMENTS,
    Kind: st.sampled_from(Kind),
    ParentClose: st.sampled_from(ParentClose),
    tuple[str, ...]: st.lists(TEXTS, max_size=2).map(tuple),
    msgspec.UnsetType: st.just(msgspec.UNSET),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of an annotated type: every field of every event has them, also the fields of tomorrow."""
    kind = getattr(kind, "__supertype__", kind)
    if kind in SIMPLE:
        return SIMPLE[kind]
    if get_origin(kind) in (UnionType, Union):
        return st.one_of([values(member) for member in get_args(kind)])
    if get_origin(kind) is tuple:
        return st.lists(values(get_args(kind)[0]), max_size=2).map(tuple)
    if kind is FailureInfo:
        return st.deferred(lambda: FAILURES)
    return st.builds(kind, **{name: values(hint) for name, hint in fields(kind).items()})


def fields(kind: type[msgspec.Struct]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {name: hints[name] for name in kind.__struct_fields__}


PLAIN = [name for name in FailureInfo.__struct_fields__ if name not in ("cause", "details")]
FAILURES = st.builds(FailureInfo, **{name: values(fields(FailureInfo)[name]) for name in PLAIN})


@pytest.mark.parametrize("name", sorted(KINDS))
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_event_comes_back_as_it_was(name, data):
    event = data.draw(values(KINDS[name]))
    assert decode(name, *encode(event)) == event


@settings(max_examples=50, deadline=None)
@given(values(StartData))
def test_all_that_a_run_knows_from_its_start_comes_back(start):
    event = ev.WorkflowStarted(ONE, start)
    payload, data = encode(event)
    assert payload == b"1"
    assert decode("WorkflowStarted", payload, data).start == start


def test_a_failure_comes_back_with_its_causes_and_details():
    cause = FailureInfo(kind=Kind.NOT_FOUND, message="inner", details=Payload(b'{"a":1}'), stack="...")
    event = ev.WorkflowFailed("outer", FailureInfo(message="outer", cause=cause))
    assert decode("WorkflowFailed", *encode(event)).failure.cause == cause


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        (ev.WorkflowStarted(ONE), 1),
        (ev.WorkflowStarted(), None),
        (
            ev.ActivityScheduled(7, 1, "charge", "cards", ONE),
            {"activity_id": 7, "activity_seq": 1, "name": "charge", "task_queue": "cards", "input": 1, "options": None},
        ),
        (
            ev.ActivityCompleted(7, 1, "charge", ONE),
            {"activity_id": 7, "activity_seq": 1, "name": "charge", "result": 1, "error": None},
        ),
        (
            ev.ActivityFailed(7, 1, "charge", "no", 3),
            {"activity_id": 7, "activity_seq": 1, "name": "charge", "error": "no", "final_attempt": 3},
        ),
        (ev.TimerScheduled(9, 2, 5.5, 1.5), {"timer_id": 9, "timer_seq": 2, "fire_at": 5.5, "duration_secs": 1.5}),
        (ev.TimerFired(2, 5.5), {"timer_seq": 2, "fire_at": 5.5}),
        (ev.WorkflowAwaitingSignal("paid"), {"signal": "paid"}),
        (ev.WorkflowAwaitingSignal("paid", 2), {"signal": "paid", "timer_seq": 2}),
        (ev.SideEffectRecorded(1, "id", NULL), {"side_effect_seq": 1, "name": "id", "value": None}),
        (ev.ChildWorkflowStarted("c", "T"), {"child_workflow_id": "c", "workflow_type": "T"}),
        (ev.ChildWorkflowFailed("c", "no"), {"child_workflow_id": "c", "error": "no"}),
        (ev.WorkflowCancelRequested(), None),
        (ev.WorkflowCancelRequested("enough"), {"reason": "enough"}),
        (ev.WorkflowCancelled("enough"), None),
        (ev.WorkflowCompleted(ONE, "run-2"), 1),
        (ev.WorkflowCompleted(), None),
        (ev.WorkflowFailed("no"), {"error": "no"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ev.Event) else "",
)
def test_the_payload_is_the_one_of_the_wire(event, payload):
    assert json.loads(encode(event)[0]) == payload


def test_a_signal_shows_its_sender_as_from():
    payload = json.loads(encode(ev.SignalReceived("paid", ONE, "wf://main/shop"))[0])
    assert (payload["signal"], payload["payload"], payload["from"]) == ("paid", 1, "wf://main/shop")


def test_documents_keep_their_bytes():
    raw = b'{"big":123456789012345678901234567890,"spaced" : 1.0}'
    assert bytes(decode("WorkflowStarted", *encode(ev.WorkflowStarted(Payload(raw)))).input) == raw
    kept = decode("SideEffectRecorded", *encode(ev.SideEffectRecorded(1, "x", Payload(raw))))
    assert bytes(kept.value) == raw


@pytest.mark.parametrize("data", [None, b'{"more":1}'])
def test_an_event_of_a_later_version_stays_as_it_came(data):
    event = decode("WorkflowBlessed", b'{"by":"ada"}', data)
    assert isinstance(event, UnknownEvent)
    assert (event.name, event.is_input, event.closes) == ("WorkflowBlessed", False, None)
    assert encode(event) == (b'{"by":"ada"}', data)


def test_fields_of_a_later_version_are_passed_over():
    assert decode("TimerFired", b'{"timer_seq":1,"fire_at":2.0,"mood":"good"}', None) == ev.TimerFired(1, 2.0)
    start = b'{"workflow_type":"T","task_queue":"q","first_run_id":"r","mood":"good"}'
    assert decode("WorkflowStarted", b"1", start).start == StartData("T", "q", "r")


def test_a_kind_of_failure_of_a_later_version_is_unknown_and_not_an_error():
    event = decode("WorkflowFailed", b'{"error":"no","failure":{"kind":"HAUNTED"}}', None)
    assert event.failure.kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("name", "payload", "data"),
    [
        ("TimerFired", b"{", None),
        ("TimerFired", b"{}", None),
        ("TimerFired", b'{"timer_seq":"one","fire_at":2.0}', None),
        ("WorkflowStarted", b"1", b"[]"),
        ("WorkflowCancelRequested", b"1", None),
    ],
)
def test_bytes_that_are_no_event_are_refused(name, payload, data):
    with refused("unreadable_event"):
        decode(name, payload, data)


def test_defaults_cost_nothing_in_a_history():
    _, data = encode(ev.WorkflowStarted(ONE, StartData("T", "q", "r", retry_policy=RetryPolicy())))
    assert json.loads(data) == {"workflow_type": "T", "task_queue": "q", "first_run_id": "r", "retry_policy": {}}


def test_every_kind_is_known_by_the_name_of_its_class():
    assert all(kind.__name__ == name for name, kind in KINDS.items())
    assert UnknownEvent not in KINDS.values()


@pytest.mark.parametrize(
    "event",
    [
        ev.WorkflowCancelled(5),  # type: ignore[arg-type]
        ev.WorkflowTerminated(reason="a \ud800 b"),
        ev.WorkflowFailed("x", FailureInfo(retryable=0)),  # type: ignore[arg-type]
        ev.StepFailed(1, "s", object()),  # type: ignore[arg-type]
    ],
)
def test_what_could_not_be_read_again_is_not_written(event: ev.Event):
    with pytest.raises(Invalid, match=f"this {type(event).__name__} cannot be recorded"):
        encode_uncertain(event)


def test_what_can_be_read_again_is_written_as_ever():
    failed = ev.ActivityFailed(1, 1, "a", "x", 2, FailureInfo(message="x", retryable=False))
    assert encode_uncertain(failed) == encode(failed)
    check_failure(FailureInfo())
    with pytest.raises(Invalid, match="cannot be recorded"):
        check_failure(FailureInfo(type=5))  # type: ignore[arg-type]
