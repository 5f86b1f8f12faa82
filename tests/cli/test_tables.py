"""Tables and pages: what programs get from a pipe, and what people see on a terminal."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.cli.arguments import ATTRIBUTES
from assay.cli.tables import EventNames, detail_of, error_of
from assay.cli.times import duration_text, now, relative
from tests.api.support import Worker
from tests.cli.support import PROGRAM, Cli, Stub, on_terminal, plain_environment, terminal

RUN: dict[str, Any] = {
    "id": "order-1",
    "workflow_type": "Order",
    "status": "RUNNING",
    "task_queue": "default",
    "created_at": 1_794_803_839.112,
    "completed_at": 1_794_803_841.312,
}
STUCK = {"reason": "task_failed", "message": "NameError: nope", "attempt": 2, "next_try_at": None}


@pytest.fixture
def people(stub: Stub, tmp_path: Path) -> dict[str, str]:
    return plain_environment(tmp_path, ASSAY_ENGINE_URL=stub.url, TERM="xterm", COLUMNS="90")


def test_durations_and_distances():
    spans = (0, 0.12, 4.24, 59.99, 192, 7_500, 3 * 86_400 + 4 * 3_600)
    assert [duration_text(seconds) for seconds in spans] == ["0ms", "120ms", "4.2s", "60s", "3m12s", "2h05m", "3d4h"]
    assert [relative(at, 1_000) for at in (1_000.5, 997, 1_065, 0)] == ["now", "3s ago", "in 1m05s", "16m40s ago"]


def test_an_error_is_the_first_line_or_the_reason_of_a_stuck_run():
    assert error_of({"error": "\n  card declined\nTraceback", "stuck": None}) == "card declined"
    assert error_of({"error": None, "stuck": STUCK}) == "stuck: task_failed"
    assert error_of({"error": None, "stuck": None}) is None


def test_events_have_names_and_details():
    def event(kind: str, payload: Any, **more: Any) -> dict[str, Any]:
        return {"event_type": kind, "payload": payload, **more}

    names = EventNames()
    shown = [
        (names.name_of(one), detail_of(one))
        for one in (
            event("WorkflowStarted", {"name": "not this"}, workflow_type="Order"),
            event("ActivityScheduled", {"activity_seq": 1, "name": "charge", "input": {"item": "book"}}),
            event("ActivityCancelRequested", {"activity_seq": 1}),
            event("ActivityFailed", {"name": "charge", "error": "declined\nline 2", "final_attempt": 3}),
            event("TimerScheduled", {"timer_seq": 2, "duration_secs": 90}),
            event("SignalReceived", {"signal": "approve", "payload": "yes"}),
            event("ChildWorkflowStarted", {"child_workflow_id": "kid", "workflow_type": "Kid"}),
            event("WorkflowCompleted", "x" * 500),
        )
    ]
    assert shown == [
        ("Order", '{"name":"not this"}'),
        ("charge", '{"item":"book"}'),
        ("charge", None),
        ("charge", "attempt 3: declined"),
        ("timer 2", "1m30s"),
        ("approve", "yes"),
        ("kid", None),
        (None, "x" * 119 + "…"),
    ]


def test_a_pipe_gets_iso_times_the_status_of_the_record_and_no_colour(stubbed: Cli, stub: Stub):
    stub.answer([{**RUN, "stuck": STUCK}])
    assert stubbed("workflow", "list", "--output", "table").out == (
        "ID       TYPE   STATUS   QUEUE    STARTED                   DURATION  ERROR               WAITING\n"
        "order-1  Order  RUNNING  default  2026-11-16T04:37:19.112Z  2.2s      stuck: task_failed  -\n"
    )


def test_a_terminal_gets_relative_times_stuck_and_colour(stub: Stub, people: dict[str, str]):
    run = {**RUN, "created_at": now() - 7_500, "completed_at": None, "stuck": STUCK}
    stub.answer([run, {**RUN, "id": "b", "status": "FAILED", "error": "e" * 200}])
    header, stuck, failed = on_terminal(["workflow", "list"], people).out.splitlines()
    assert header.startswith("\x1b[1mID")
    assert "\x1b[35m\x1b[1mSTUCK\x1b[0m" in stuck
    assert "2h05m ago  2h05m" in stuck
    assert "\x1b[31mFAILED\x1b[0m" in failed
    assert failed.endswith("e…  -")
    stub.answer([run])
    plain = on_terminal(["workflow", "list"], {**people, "NO_COLOR": "1"}).out
    assert "STUCK" in plain
    assert "\x1b" not in plain


def test_describe_is_a_page_for_people(stub: Stub, people: dict[str, str]):
    failure = {
        "kind": "INTERNAL",
        "type": "ValueError",
        "message": "no\x07",
        "stack": "Traceback\n  line",
        "cause": None,
    }
    run = {**RUN, "status": "FAILED", "error": "no\x07", "failure": failure, "input": {"item": "book"}, "memo": None}
    stub.answer(run)
    page = on_terminal(["workflow", "describe", "order-1"], {**people, "NO_COLOR": "1"}).out
    assert page.startswith("order-1  FAILED\n")
    assert '  input              {"item":"book"}\n' in page
    assert "\n    Traceback\n      line\n" in page
    assert "memo" not in page
    assert page.replace("\n", "").isprintable()
    stub.answer(run)
    assert on_terminal(["workflow", "describe", "order-1", "--output", "json"], people).json == run


def test_filters_of_a_list(stubbed: Cli, stub: Stub):
    filters = [
        "--stuck",
        "--status",
        "OPEN",
        "--since",
        "1h",
        "--search-attrs",
        "customer=cust1",
        "--search-attrs",
        "n=5",
    ]
    assert stubbed("workflow", "list", *filters).code == 0
    requests = stub.last.path
    assert "stuck=true" in requests
    assert "status=open" in requests
    assert "search_attrs=%7B%22customer%22%3A+%22cust1%22%2C+%22n%22%3A+5%7D" in requests
    (after,) = [part for part in requests.split("&") if part.startswith("created_after=")]
    assert abs(now() - 3_600 - float(after.partition("=")[2])) < 60


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("customer=cust1", {"customer": "cust1"}),
        ("n=5", {"n": 5}),
        ('n="5"', {"n": "5"}),
        ("ok=true", {"ok": True}),
        ("day=2026-01-31", {"day": "2026-01-31"}),
        ("tags=[1,2]", {"tags": [1, 2]}),
        ("empty=", {"empty": ""}),
        ("sum=a=b", {"sum": "a=b"}),
        ('{"env": "a=b"}', {"env": "a=b"}),
    ],
)
def test_search_attributes_of_a_line(text: str, found: dict[str, Any]):
    assert ATTRIBUTES.convert(text, None, None) == found


def test_search_attributes_that_are_none(bare: Cli):
    assert bare("workflow", "list", "--search-attrs", "customer").code == 64


def test_watching_a_list(cli: Cli, tmp_path: Path):
    cli("workflow", "start", "--type", "Order", "--id", "first")
    environment = plain_environment(tmp_path, **{n: v for n, v in os.environ.items() if n.startswith("ASSAY_")})
    with terminal([*PROGRAM, "workflow", "list", "--watch"], {**environment, "TERM": "xterm"}) as watched:
        assert "1 runs" in watched.until("first")
        cli("workflow", "start", "--type", "Order", "--id", "second")
        watched.until("second")


def test_stuck_and_open_runs_are_found(cli: Cli, worker: Callable[..., Worker]):
    hand = worker(workflows=["Order"])
    for name, kind in (("o", "Order"), ("misspelt", "Ordr"), ("done", "Order")):
        cli("workflow", "start", "--type", kind, "--id", name)
    hand.turn("o", {"type": "FailTask", "reason": "no_handler", "message": "no Order here"})
    cli("workflow", "terminate", "done")
    assert [run["id"] for run in cli("workflow", "list", "--status", "open").json] == ["misspelt", "o"]
    assert [run["id"] for run in cli("workflow", "list", "--status", "Closed").json] == ["done"]
    assert "  stuck: no_handler  No worker of queue " in cli("workflow", "list", "--stuck", "--output", "table").out
    assert cli("workflow", "result", "done").code == 1


def test_a_silent_worker_is_marked(stubbed: Cli, stub: Stub):
    workers = [{"id": "a", "last_heartbeat": now()}, {"id": "b", "last_heartbeat": now() - 40}]
    stub.answer([*workers, {"id": "c", "last_heartbeat": now(), "healthy": False}])
    table = stubbed("worker", "list", "--output", "table").rows
    assert [row[-1] for row in table] == ["STATE", "alive", "lost", "unhealthy"]


def test_errors_are_sentences(stubbed: Cli, stub: Stub):
    for body, sentence in (
        ({"error": "not found: workflow o", "code": "not_found"}, "workflow o not found"),
        ({"error": "not found: cannot delete the 'main' namespace"}, "cannot delete the 'main' namespace"),
        ({"error": "not found: workflow o not found"}, "workflow o not found"),
        ({"error": "limit must be from 1 to 10"}, "limit must be from 1 to 10"),
        ({"other": 1}, json.dumps({"other": 1})),
    ):
        stub.answer(body, 404)
        assert stubbed("workflow", "describe", "o").err == f"error: workflow describe: HTTP 404: {sentence}\n"
