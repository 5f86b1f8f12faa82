import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.cli.arguments import STATUSES
from assay.cli.workflow import CONFLICTS, REUSES
from assay.core.model.policies import IdConflict, IdReuse
from assay.engine import filters
from tests.api.support import Worker, activity, complete
from tests.cli.support import PROGRAM, Cli, plain_environment, terminal

FORMATS = ["table", "json", "jsonl", "yaml"]
ODD_IDS = ["with blank", "a/b/../c", "ünïcödé-名前-🦊", "100%25&x=1?y#z", "..", "semi;colon'quote\"", "-dash"]


def kinds(cli: Cli, workflow_id: str) -> list[str]:
    return [event["event_type"] for event in cli("workflow", "events", workflow_id).json]


def signals(cli: Cli, workflow_id: str) -> list[tuple[str, Any]]:
    events = cli("workflow", "events", "--", workflow_id).json
    received = [event["payload"] for event in events if event["event_type"] == "SignalReceived"]
    return [(payload["signal"], payload["payload"]) for payload in received]


# start


def test_start_prints_the_ids(cli: Cli, namespace: str):
    result = cli("workflow", "start", "--type", "Order", "--id", "order-1", "--input", '{"n": 1}')
    assert result.code == 0
    assert result.json["workflow_id"] == "order-1"
    assert result.json["started"] is True
    record = cli("workflow", "describe", "order-1").json
    assert (record["input"], record["task_queue"], record["namespace"]) == ({"n": 1}, "default", namespace)


def test_start_makes_an_id(cli: Cli):
    assert cli("workflow", "start", "--type", "Order").json["workflow_id"].startswith("wf-order-")


def test_start_takes_all_options(cli: Cli):
    options = ["--id", "o", "--queue", "q", "--search-attrs", '{"env": "prod"}', "--memo", '{"note": "x"}']
    options += ["--delay", "1h", "--run-timeout", "90", "--execution-timeout", "2h", "--task-timeout", "7"]
    options += ["--retry", '{"maximum_attempts": 2}', "--summary", "an order", "--reuse", "reject_duplicate"]
    assert cli("workflow", "start", "--type", "Order", *options, "--request-id", "r1").code == 0
    record = cli("workflow", "describe", "o").json
    assert (record["task_queue"], record["search_attributes"]["env"], record["memo"]) == ("q", "prod", {"note": "x"})
    assert (record["run_timeout"], record["task_timeout"], record["summary"]) == (90, 7, "an order")
    assert record["execution_deadline"] > record["first_task_at"] >= record["created_at"] + 3600
    assert record["retry_policy"]["maximum_attempts"] == 2
    again = cli("workflow", "start", "--type", "Order", *options, "--request-id", "r1").json
    assert again["run_id"] == record["run_id"]


def test_start_with_a_cron_expression(cli: Cli):
    assert cli("workflow", "start", "--type", "Order", "--id", "c", "--cron", "0 0 1 1 *").code == 0
    assert cli("workflow", "describe", "c").json["cron_schedule"] == "0 0 1 1 *"


def test_start_of_an_open_id(cli: Cli):
    first = cli("workflow", "start", "--type", "Order", "--id", "o").json
    result = cli("workflow", "start", "--type", "Order", "--id", "o")
    assert (result.code, result.out) == (1, "")
    assert result.err == "error: workflow start: HTTP 409: workflow 'o' is already running\n"
    used = cli("workflow", "start", "--type", "Order", "--id", "o", "--conflict", "USE_EXISTING").json
    assert (used["run_id"], used["started"]) == (first["run_id"], False)
    fresh = cli("workflow", "start", "--type", "Order", "--id", "o", "--conflict", "terminate_existing").json
    assert fresh["run_id"] != first["run_id"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--type", ""],
        ["--type", "T", "--conflict", "whatever"],
        ["--type", "T", "--delay", "soon"],
        ["--type", "T", "--delay", "-1"],
        ["--type", "T", "--search-attrs", "[1]"],
        ["--type", "T", "--nonsense"],
        ["--type", "T", "extra"],
    ],
)
def test_a_wrong_call_is_64(cli: Cli, arguments: list[str]):
    result = cli("workflow", "start", *arguments)
    assert (result.code, result.out) == (64, "")
    assert "Error:" in result.err


# look


@pytest.mark.parametrize("workflow_id", ODD_IDS)
def test_odd_ids(cli: Cli, workflow_id: str):
    assert cli("workflow", "start", "--type", "Order", f"--id={workflow_id}").json["workflow_id"] == workflow_id
    assert cli("workflow", "describe", "--", workflow_id).json["id"] == workflow_id
    result = cli("workflow", "--output", "table", "signal", "--", workflow_id, workflow_id, '"x"')
    assert (result.code, result.out) == (0, f"signal '{workflow_id}' sent to {workflow_id}\n")
    assert signals(cli, workflow_id) == [(workflow_id, "x")]
    assert cli("workflow", "list", "--output", "table").out.splitlines()[1].startswith(f"{workflow_id}  Order  ")
    assert cli("workflow", "terminate", "--", workflow_id).code == 0


def test_list_filters(cli: Cli, worker: Callable[..., Worker]):
    hand = worker()
    for number in range(3):
        cli(
            "workflow",
            "start",
            "--type",
            f"T{number % 2}",
            "--id",
            f"w{number}",
            "--search-attrs",
            f'{{"n": {number}}}',
        )
    hand.turn(
        "w0",
        {"type": "StartChildWorkflow", "workflow_type": "Child", "workflow_id": "kid", "task_queue": "q"},
        {"type": "RecordVersion", "change_id": "pay", "version": 1},
    )

    def ids(*options: str) -> list[str]:
        return [record["id"] for record in cli("workflow", "list", *options).json]

    assert ids() == ["kid", "w2", "w1", "w0"]
    assert ids("--status", "running") == ["w0"]
    assert ids("--type", "T1") == ["w1"]
    assert ids("--queue", "q") == ["kid"]
    assert ids("--parent", "w0") == ["kid"]
    assert ids("--text", "W") == ["w2", "w1", "w0"]
    assert ids("--change-version", "pay") == ids("--change-version", "pay:1") == ["w0"]
    assert ids("--change-version", "pay:2") == []
    assert ids("--search-attrs", '{"n": 2}') == ["w2"]
    assert ids("--limit", "1", "--offset", "1") == ["w2"]
    assert ids("--status", "FAILED") == []


def test_list_has_20_rows_unless_told(cli: Cli):
    for number in range(22):
        cli("workflow", "start", "--type", "Order", "--id", f"w{number:02}")
    assert len(cli("workflow", "list").json) == 20
    assert len(cli("workflow", "list", "--limit", "21").json) == 21


def test_a_long_list_is_read_page_by_page(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    for number in range(5):
        cli("workflow", "start", "--type", "Order", "--id", f"w{number}")
    monkeypatch.setattr("assay.cli.listing.LIST_PAGE_RUNS", 2)
    assert [record["id"] for record in cli("workflow", "list", "--offset", "1").json] == ["w3", "w2", "w1", "w0"]
    assert [record["id"] for record in cli("workflow", "list", "--limit", "3").json] == ["w4", "w3", "w2"]


@pytest.mark.parametrize("status", ["nope", ""])
def test_an_unknown_status_is_a_wrong_call(cli: Cli, status: str):
    assert cli("workflow", "list", "--status", status).code == 64


def test_state(cli: Cli, worker: Callable[..., Worker]):
    cli("workflow", "start", "--type", "Order", "--id", "o")
    assert cli("workflow", "state", "o").code == 1
    snapshot = {"type": "RecordSnapshot", "state": {"stage": "build", "per/cent": 5}}
    worker().turn("o", snapshot, {"type": "WaitForSignal", "name": "go"})
    assert cli("workflow", "state", "o").json["state"] == {"stage": "build", "per/cent": 5}
    assert cli("workflow", "state", "o", "per/cent").json["value"] == 5
    result = cli("workflow", "state", "o", "nope")
    assert result.code == 1
    assert "HTTP 404" in result.err


def test_children(cli: Cli, worker: Callable[..., Worker]):
    cli("workflow", "start", "--type", "Order", "--id", "parent")
    child = {"type": "StartChildWorkflow", "workflow_type": "Kid", "workflow_id": "kid", "task_queue": "other"}
    worker().turn("parent", child)
    header, row = cli("workflow", "children", "parent", "--output", "table").rows
    assert header == ["ID", "TYPE", "STATUS", "STARTED", "DURATION", "ERROR", "WAITING"]
    assert row[:3] == ["kid", "Kid", "PENDING"]


def test_runs_and_another_run(cli: Cli):
    first = cli("workflow", "start", "--type", "Order", "--id", "o").json["run_id"]
    second = cli("workflow", "continue-as-new", "o", "--input", "[1]").json["run_id"]
    assert [record["run_id"] for record in cli("workflow", "runs", "o").json] == [second, first]
    table = cli("workflow", "runs", "o", "--output", "table").out.splitlines()
    assert table[0].split("  ")[0] == "RUN ID"
    assert table[2].split()[:3] == [first, "COMPLETED", "continued_as_new"]
    assert cli("workflow", "describe", "o", "--run-id", first).json["next_run_id"] == second
    assert cli("workflow", "describe", "o").json["input"] == [1]


# steer


def test_signal_without_payload(cli: Cli):
    cli("workflow", "start", "--type", "Order", "--id", "o")
    assert cli("workflow", "signal", "o", "go").code == 0
    assert signals(cli, "o") == [("go", None)]


def test_cancel(cli: Cli):
    cli("workflow", "start", "--type", "Order", "--id", "o")
    result = cli("workflow", "cancel", "o", "--reason", "changed my mind", "--output", "table")
    assert (result.code, result.out) == (0, "cancel requested for o\n")
    event = next(one for one in cli("workflow", "events", "o").json if one["event_type"] == "WorkflowCancelRequested")
    assert "changed my mind" in json.dumps(event)
    assert cli("workflow", "describe", "o").json["status"] == "CANCELLED"
    result = cli("workflow", "cancel", "o")
    assert result.code == 1
    assert "HTTP 404" in result.err


def test_terminate(cli: Cli):
    cli("workflow", "start", "--type", "Order", "--id", "o")
    assert cli("workflow", "terminate", "o", "--reason", "enough", "--output", "table").out == "o terminated\n"
    record = cli("workflow", "describe", "o").json
    assert (record["status"], record["close_reason"], record["error"]) == ("FAILED", "terminated", "enough")


def test_continue_as_new_under_another_id(cli: Cli):
    cli("workflow", "start", "--type", "Order", "--id", "o")
    assert cli("workflow", "continue-as-new", "o", "--new-id", "p").json["workflow_id"] == "p"


def test_retry(cli: Cli, worker: Callable[..., Worker]):
    hand = worker()
    cli("workflow", "start", "--type", "Order", "--id", "o")
    hand.turn("o", activity(1, max_attempts=1))
    task = hand.activity(wait_secs=5)
    assert task is not None
    hand.fail(task)
    hand.turn("o", {"type": "FailWorkflow", "error": "broken"})
    wanted = ["--requested-by", "alice", "--reason", "it is back"]
    result = cli("workflow", "retry", "o", *wanted)
    assert (result.code, result.json["status"], result.err) == (0, "WAITING", "")
    assert cli("workflow", "describe", "o").json["status"] in ("RUNNING", "PENDING")
    result = cli("workflow", "retry", "o", *wanted)
    assert result.code == 1
    assert "HTTP 409" in result.err
    assert cli("workflow", "retry", "o").code == 64


def test_retry_names_what_is_dropped(cli: Cli, worker: Callable[..., Worker]):
    hand = worker()
    cli("workflow", "start", "--type", "Order", "--id", "o")
    hand.turn("o", activity(1, name="reserve"))
    task = hand.activity(wait_secs=5)
    assert task is not None
    hand.complete(task, "reserved")
    hand.turn("o", {"type": "FailWorkflow", "error": "broken"})
    result = cli("workflow", "retry", "o", "--reason", "again", "--from-seq", "9")
    assert (result.code, "bad_from_seq" in result.err or "from_seq" in result.err) == (1, True)
    result = cli("workflow", "retry", "o", "--reason", "again", "--from-seq", "1")
    assert (result.code, result.json["dropped_events"], result.json["activity"]) == (0, 3, None)
    assert result.err.splitlines() == ["dropped, and repeated only if the code schedules them again: reserve"]
    first = cli("workflow", "events", "o").json[0]
    assert first["initiator"] == "reopen"


def test_retry_asks_on_a_terminal_before_it_drops_work(cli: Cli, worker: Callable[..., Worker], tmp_path: Path):
    hand = worker()
    cli("workflow", "start", "--type", "Order", "--id", "o")
    hand.turn("o", activity(1, name="reserve"))
    cli("workflow", "terminate", "o")
    environment = plain_environment(tmp_path, **{n: v for n, v in os.environ.items() if n.startswith("ASSAY_")})
    again = ["workflow", "retry", "o", "--reason", "again", "--from-seq", "1"]
    with terminal([*PROGRAM, *again], environment) as requests:
        assert "reserve" in requests.until("[y/N]")
        requests.type_in("n\n")
        requests.until("nothing was retried")
    assert len(cli("workflow", "runs", "o").json) == 1
    with terminal([*PROGRAM, *again, "--yes"], environment) as requests:
        assert "[y/N]" not in requests.until("dropped_events")
    assert len(cli("workflow", "runs", "o").json) == 2


# every command in every format


READS: list[tuple[list[str], str, list[str] | None]] = [
    (["workflow", "list"], "list", ["ID", "TYPE", "STATUS", "QUEUE", "STARTED", "DURATION", "ERROR", "WAITING"]),
    (["workflow", "events", "o"], "list", ["SEQ", "TYPE", "TIMESTAMP", "NAME", "DETAIL"]),
    (["workflow", "children", "o"], "list", ["ID", "TYPE", "STATUS", "STARTED", "DURATION", "ERROR", "WAITING"]),
    (["workflow", "runs", "o"], "list", ["RUN", "ID", "STATUS", "REASON", "CREATED", "COMPLETED"]),
    (["namespace", "list"], "list", ["NAME", "CREATED"]),
    (
        ["worker", "list"],
        "list",
        ["ID", "IDENTITY", "QUEUE", "ACTIVE", "LAST", "HEARTBEAT", "HEALTHY", "ABANDONED", "THREADS", "STATE"],
    ),
    (["queue", "stats"], "list", ["QUEUE", "PENDING", "RUNNING", "WORKERS", "TASKS"]),
    (["workflow", "describe", "o"], "record", None),
    (["workflow", "state", "o"], "record", None),
    (["workflow", "result", "o"], "record", None),
    (["namespace", "describe", "main"], "record", None),
]
ACTIONS: list[tuple[list[str], str]] = [
    (["workflow", "signal", "o", "go"], "signal 'go' sent to o"),
    (["workflow", "cancel", "o"], "cancel requested for o"),
    (["workflow", "terminate", "o"], "o terminated"),
]


@pytest.fixture
def order(cli: Cli, worker: Callable[..., Worker]) -> None:
    """A run with a state, a child and a worker."""
    cli("workflow", "start", "--type", "Order", "--id", "o")
    child = {"type": "StartChildWorkflow", "workflow_type": "Kid", "workflow_id": "kid", "task_queue": "default"}
    worker().turn("o", {"type": "RecordSnapshot", "state": {"a": 1}}, child)


@pytest.mark.usefixtures("order")
def test_reads_in_every_format(cli: Cli):
    for arguments, shape, header in READS:
        result = {output: cli(*arguments, "--output", output) for output in FORMATS}
        assert [one.code for one in result.values()] == [0] * 4, arguments
        document: Any = result["json"].json
        assert result["json"].out == json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        assert stable(result["yaml"].yaml) == stable(document)
        if shape == "list":
            assert document
            assert stable(result["jsonl"].lines) == stable(document)
            assert result["table"].rows[0] == header
            assert len(result["table"].rows) == len(document) + 1
        else:
            assert stable(result["jsonl"].lines) == [stable(document)]
            assert stable(result["table"].json) == stable(document)


UNSTABLE = ("last_heartbeat", "oldest_pending_at", "waiting_on")


def stable(document: Any) -> Any:
    """Without what changes from one look to the next."""
    if isinstance(document, list):
        return [stable(one) for one in document]
    return {name: value for name, value in document.items() if name not in UNSTABLE}


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.usefixtures("order")
def test_actions_in_every_format(cli: Cli, output: str):
    for arguments, sentence in ACTIONS:
        result = cli(*arguments, "--output", output)
        done = {"message": sentence, "ok": True}
        expected = {
            "table": f"{sentence}\n",
            "json": json.dumps(done) + "\n",
            "jsonl": json.dumps(done, separators=(",", ":")) + "\n",
            "yaml": f"message: {sentence}\nok: true\n",
        }
        assert (result.code, result.out, result.err) == (0, expected[output], ""), arguments


def test_the_session_of_the_seed(cli: Cli, worker: Callable[..., Worker]):
    hand = worker(queue="deploys")
    start = ["--type", "ApproveAndDeploy", "--id", "deploy-1234", "--queue", "deploys"]
    assert cli("workflow", "start", *start, "--input", '{"git_sha":"abc123","target_env":"staging"}').code == 0
    waits = {"type": "WaitForSignal", "name": "approve"}
    hand.turn("deploy-1234", {"type": "RecordSnapshot", "state": {"pipeline_state": {"stage": "awaiting"}}}, waits)
    assert cli("workflow", "state", "deploy-1234", "pipeline_state").json["value"] == {"stage": "awaiting"}
    assert cli("workflow", "signal", "deploy-1234", "approve", '{"by":"alice"}').code == 0
    hand.turn("deploy-1234", complete({"ok": True}))
    result = cli("workflow", "wait", "deploy-1234", "--timeout", "300")
    assert (result.code, result.json["result"]) == (0, {"ok": True})
    assert kinds(cli, "deploy-1234")[-1] == "WorkflowCompleted"


def test_choices_are_those_of_the_engine():
    assert tuple(IdConflict) == CONFLICTS
    assert tuple(IdReuse) == REUSES
    assert set(filters.STATUSES) == set(STATUSES)


def test_explain_says_what_a_run_waits_for_and_how_it_ended(cli: Cli, worker: Callable[..., Worker]):
    hand = worker(queue="explained")
    assert cli("workflow", "start", "--type", "Order", "--id", "explained-1", "--queue", "explained").code == 0
    timer = {"type": "ScheduleTimer", "seq": 0, "duration_secs": 7_200}
    hand.turn("explained-1", timer, {"type": "WaitForSignal", "name": "zusätzlich"})
    first, second = cli("workflow", "explain", "explained-1", "--output", "table").out.splitlines()
    assert first == "Waits 0 s for signal 'zusätzlich'."
    assert second.startswith("Timer fires in 2 h (")
    result = cli("workflow", "explain", "explained-1", "--output", "json")
    assert list(result.json) == ["workflow_id", "run_id", "status", "waiting_on"]
    assert "zusätzlich" in result.out
    header, row = cli("workflow", "list", "--queue", "explained", "--output", "table").out.splitlines()
    assert header.split()[-1] == "WAITING"
    assert row.endswith("Waits 0 s for signal 'zusätzlich'.")
    cli("workflow", "signal", "explained-1", "zusätzlich")
    hand.turn("explained-1", complete({"ok": True}))
    ended = cli("workflow", "explain", "explained-1", "--output", "table")
    assert (ended.code, ended.out.split(" after ")[0]) == (0, "Completed")
    assert cli("workflow", "explain", "explained-1", "--output", "json").json["waiting_on"] is None


def test_a_start_takes_arguments_a_context_and_a_priority(cli: Cli):
    start = ["workflow", "start", "--type", "Order", "--id", "w"]
    assert cli(*start, "--args", '[1, "a"]', "--context", '{"tenant": "t"}', "--priority", "1").code == 0
    record = cli("workflow", "describe", "w").json
    assert (record["input"], record["context"], record["priority"]) == ({"$args": [1, "a"]}, {"tenant": "t"}, 1)
    assert cli(*start, "--priority", "6").code == 64
    assert cli(*start, "--args", "[1]", "--input", "1").code != 0
