import pickle

import msgspec
import pytest

from assay.core.codec import UnknownEvent, decode
from assay.core.model.commands import CancelWorkflow, CompleteWorkflow, FailWorkflow, ScheduleActivity, WaitForSignal
from assay.core.model.errors import Invalid, Kind
from assay.core.model.events import Recorded
from assay.core.model.explanation import Facts
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, Seq
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import RetryPolicy
from assay.core.model.replies import Started
from assay.core.model.run import Run
from assay.core.rules.waiting import waiting_on
from assay.sdk.client.records import Record
from assay.sdk.client.run_lists import Page
from assay.wire.render import cursor_of, parse_cursor
from assay.wire.stream_kinds import facts_of
from tests.core.support import (
    NOW,
    ORDER,
    World,
    cancel_requested,
    claimed,
    completed,
    failed,
    fails_task,
    given,
    leased,
    scheduled,
    signalled,
    started,
    terminated,
    turned,
)
from tests.wire.shown import event_record, failure_record, run_record, start_record, state_record

ORIGINAL = [
    "id", "namespace", "run_id", "workflow_type", "task_queue", "status", "input", "result", "error", "parent_id",
    "claimed_by", "search_attributes", "archived_at", "archive_uri", "created_at", "updated_at", "completed_at",
]  # fmt: skip
BIG = 2**90
HISTORY_BYTES = 321


def shown(run: Run, input: Payload = NULL, result: Payload = NULL) -> Record:
    return Record(run_record(run, HISTORY_BYTES, input, result, None, waiting_on(run, Facts(), NOW)))


def records(world: World) -> list[Record]:
    return [Record(event_record(world.run.key, recorded)) for recorded in world.histories[world.run.run_id]]


def test_a_run_has_the_fields_of_the_original_first():
    record = shown(given(started()).run)
    assert list(record)[: len(ORIGINAL)] == ORIGINAL


def test_a_run_always_has_what_r30_promises():
    record = shown(given(started()).run)
    assert [record[name] for name in ("close_reason", "next_run_id", "stuck")] == [None] * 3
    assert record.workflow_id == record.id == ORDER
    assert record.first_run_id == record.run_id
    assert record.previous_run_id is None
    assert record.attempt == 1


def test_documents_are_values_and_times_are_seconds():
    options = {
        "search_attributes": Payload(b'{"env":"prod"}'),
        "memo": Payload(b'{"note":null,"by":"api"}'),
        "run_timeout": 90 * SECOND,
        "retry_policy": RetryPolicy(initial_interval=SECOND // 2, non_retryable=("Invalid",)),
    }
    record = shown(given(started(**options)).run, Payload(b'{"a":[%d]}' % BIG))
    assert record.input == {"a": [BIG]}
    assert record.search_attributes == {"env": "prod"}
    assert record.memo == {"note": None, "by": "api"}
    assert record.created_at == NOW / SECOND
    assert record.run_timeout == 90.0
    assert record.retry_policy["initial_interval"] == 0.5
    assert record.retry_policy["non_retryable_error_types"] == ["Invalid"]


def test_every_record_is_json():
    world = given(started(retry_policy=RetryPolicy()), scheduled(), leased(), failed(), cancel_requested())
    for record in (shown(world.run), *records(world)):
        assert msgspec.json.decode(msgspec.json.encode(record)) == record


def test_a_completed_run_has_its_result():
    world = given(started(), turned(CompleteWorkflow(Payload(b'"done"'))))
    record = shown(world.run, result=Payload(b'"done"'))
    assert (record.status, record.result, record.completed_at) == ("COMPLETED", "done", NOW / SECOND)


def test_a_failed_run_has_its_structured_failure():
    failure = FailureInfo(kind=Kind.NOT_FOUND, message="gone", cause=FailureInfo(message="inner"))
    world = given(started(), turned(FailWorkflow("gone", failure)))
    record = run_record(world.run, HISTORY_BYTES, NULL, NULL, world.history()[-1], None)
    assert record["error"] == "gone"
    assert record["failure"]["kind"] == "NOT_FOUND"
    assert record["failure"]["cause"]["message"] == "inner"


def test_a_terminated_run_says_so_in_its_close_reason():
    world = given(started(), terminated(reason="enough"))
    record = Record(run_record(world.run, HISTORY_BYTES, NULL, NULL, world.history()[-1], None))
    assert (record.status, record.close_reason, record.error) == ("FAILED", "terminated", "enough")
    assert (record.failure["kind"], record.failure["message"]) == ("CANCELED", "enough")


def test_a_stuck_run_says_why():
    record = shown(given(started(), claimed(), fails_task("no_handler", "no Order here")).run)
    assert record.stuck["reason"] == "no_handler"
    assert record.stuck["message"] == "no Order here"
    assert record.stuck["next_try_at"] > record.created_at


def test_a_run_says_which_signal_it_waits_for():
    waiting = given(started(), turned(WaitForSignal("paid")))
    assert shown(waiting.run).waiting_on["signal"] == "paid"
    waiting.take(signalled("paid"))
    assert shown(waiting.run).waiting_on["kind"] == "no_worker"


def test_the_first_event_has_the_bare_input_and_the_rest_beside_it():
    options = {"memo": Payload(b'{"m":1}'), "run_timeout": 5 * SECOND, "input": Payload(b'{"a":1}')}
    first = records(given(started(**options)))[0]
    assert (first.seq, first.event_type, first.payload) == (1, "WorkflowStarted", {"a": 1})
    assert (first.workflow_type, first.task_queue, first.memo, first.run_timeout) == ("Order", "default", {"m": 1}, 5.0)
    assert first.workflow_id == ORDER
    assert first.timestamp == NOW / SECOND


def test_events_show_payloads_of_the_wire():
    world = given(
        started(), scheduled(1, "charge"), leased(), completed(result=Payload(b"%d" % BIG)), turned(CompleteWorkflow())
    )
    by_type = {record.event_type: record for record in records(world)}
    assert by_type["ActivityScheduled"].payload["options"]["start_to_close"] == 300.0
    assert by_type["ActivityScheduled"].payload["input"] is None
    assert by_type["ActivityCompleted"].payload["result"] == BIG
    assert by_type["WorkflowCompleted"].payload is None


@pytest.mark.parametrize(
    ("kind", "stored", "shown"),
    [
        ("WorkflowTerminated", b"{}", {"reason": "terminated"}),
        ("WorkflowTerminated", b'{"reason":"fire","by":"ada"}', {"reason": "fire", "by": "ada"}),
        ("WorkflowTimedOut", b'{"error":"too slow"}', {"scope": "run", "error": "too slow"}),
        ("WorkflowTimedOut", b'{"scope":"execution"}', {"scope": "execution", "error": ""}),
        ("WorkflowFailed", b"{}", {"error": ""}),
        ("StepCompleted", b'{"step_seq":1,"name":"s"}', {"step_seq": 1, "name": "s", "result": None, "attempt": 1}),
        ("AttributesUpserted", b'{"search":{"a":1}}', {"search": {"a": 1}, "memo": None}),
        (
            "ActivityCancelled",
            b'{"activity_id":1,"activity_seq":1,"name":"a"}',
            {"activity_id": 1, "activity_seq": 1, "name": "a", "details": None},
        ),
        (
            "ChildWorkflowStarted",
            b'{"child_workflow_id":"c","workflow_type":"C"}',
            {"child_workflow_id": "c", "workflow_type": "C", "child_seq": 0},
        ),
        ("WorkflowStarted", b"{}", {}),
        ("WorkflowCompleted", b"{}", {}),
        ("WorkflowCancelRequested", b"null", None),
    ],
)
def test_what_goes_without_saying_is_shown_all_the_same(kind: str, stored: bytes, shown: object):
    """Old histories do without it, and so does the store."""
    recorded = Recorded(Seq(7), NOW, decode(kind, stored, None))
    assert event_record(given(started()).run.key, recorded)["payload"] == shown


def test_the_stream_tells_what_goes_without_saying():
    assert facts_of("WorkflowTerminated", b"{}") == {"reason": "terminated"}
    assert facts_of("WorkflowTimedOut", b"{}")["scope"] == "run"
    assert facts_of("SomethingLater", b'{"n":1}') == {"n": 1}


def test_a_cancelled_run_shows_the_reason_beside_an_empty_payload():
    world = given(started(), claimed(), cancel_requested(reason="stop"), turned(CancelWorkflow("stop")))
    last = records(world)[-1]
    assert (last.event_type, last.payload, last.reason) == ("WorkflowCancelled", None, "stop")


def test_a_failed_activity_shows_its_failure_in_full():
    world = given(started(), turned(ScheduleActivity(1, "charge", max_attempts=1)), leased(), failed())
    payload = records(world)[-1].payload
    assert payload["error"] == "broken"
    assert payload["failure"] == failure_record(world.history()[-1].failure)  # type: ignore[attr-defined]
    assert set(payload["failure"]) >= {"kind", "message", "retryable", "details", "type", "stack", "cause"}


def test_an_event_of_a_later_version_is_shown_as_it_came():
    key = given(started()).run.key
    unknown = UnknownEvent("ThingHappened", Payload(b'{"x":1}'))
    record = event_record(key, Recorded(Seq(7), NOW, unknown))
    assert (record["event_type"], record["payload"]) == ("ThingHappened", {"x": 1})


def test_a_start_is_answered_with_who_and_whether():
    run = given(started()).run
    answer = start_record(Started(run.key, "PENDING", started=True))
    assert answer == {
        "workflow_id": ORDER,
        "run_id": run.run_id,
        "status": "PENDING",
        "started": True,
        "pid": f"wf://main/{ORDER}",
    }


def test_states():
    state = Payload(b'{"stage":"build","empty":null}')
    assert state_record(state, 4, NOW) == {
        "state": {"stage": "build", "empty": None},
        "event_seq": 4,
        "created_at": NOW / SECOND,
    }
    assert state_record(state, 4, NOW, "stage") == {"value": "build", "event_seq": 4, "created_at": NOW / SECOND}
    assert state_record(state, 4, NOW, "empty") is not None
    assert state_record(state, 4, NOW, "other") is None


@pytest.mark.parametrize("microsecond", [0, 1, 3, 7, 123_457, 999_999])
def test_a_cursor_names_the_exact_moment(microsecond: int):
    run = given(started()).run
    run.created_at += microsecond
    assert parse_cursor(cursor_of(run.created_at, run.run_id)) == (run.created_at, run.run_id)


@pytest.mark.parametrize("text", ["", "x", "1", "1.", ".run-1", "-1.run-1", "1" * 19 + ".run-1", "\u0661.run-1"])
def test_a_made_up_cursor_is_refused(text: str):
    with pytest.raises(Invalid):
        parse_cursor(text)


def test_a_record_is_a_dict_with_attributes():
    record = Record(status="RUNNING", run_id="run-1")
    assert record.status == record["status"] == "RUNNING"
    assert record == {"status": "RUNNING", "run_id": "run-1"}
    assert "status" in dir(record)
    with pytest.raises(AttributeError, match="it has status, run_id"):
        _ = record.state
    with pytest.raises(AttributeError):
        record.status = "FAILED"


def test_records_and_pages_survive_a_copy():
    page = Page([Record(status="RUNNING")], "cursor")
    again = pickle.loads(pickle.dumps(page))  # noqa: S301 - made just now
    assert again == page == [{"status": "RUNNING"}]
    assert again.next_cursor == "cursor"
    assert again[0].status == "RUNNING"
    assert page[0].copy().status == "RUNNING"
