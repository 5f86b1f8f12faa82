import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.cli import waiting
from assay.core.rules.fold import CLOSE_REASONS
from tests.api.support import Server, Worker, complete, serving
from tests.cli.support import PROGRAM, SECONDS, Cli, CommandResult, Stub, plain_environment

OPEN = {"workflow_id": "o", "run_id": "r", "status": "RUNNING"}


def later(seconds: float, action: Callable[[], Any]) -> threading.Timer:
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


@pytest.fixture
def order(cli: Cli) -> str:
    cli("workflow", "start", "--type", "Order", "--id", "o")
    return "o"


# wait


@pytest.mark.parametrize(
    ("command", "code", "status"),
    [
        (complete(5), 0, "COMPLETED"),
        ({"type": "FailWorkflow", "error": "broken"}, 1, "FAILED"),
        ({"type": "CancelWorkflow"}, 1, "CANCELLED"),
    ],
)
def test_the_exit_code_tells_how_it_ended(
    cli: Cli, order: str, worker: Callable[..., Worker], command: dict[str, Any], code: int, status: str
):
    hand = worker()
    timer = later(0.2, lambda: hand.turn(order, command))
    result = cli("workflow", "wait", order, "--timeout", "20")
    timer.join()
    assert (result.code, result.json["status"], result.json["id"], result.err) == (code, status, order, "")


def test_a_run_that_timed_out(cli: Cli):
    cli("workflow", "start", "--type", "Order", "--id", "o", "--run-timeout", "0.2")
    result = cli("workflow", "wait", "o")
    assert (result.code, result.json["status"]) == (1, "TIMED_OUT")


def test_a_terminated_run(cli: Cli, order: str):
    cli("workflow", "terminate", order)
    assert cli("workflow", "wait", order).code == 1


def test_the_end_of_the_chain_counts(cli: Cli, order: str, worker: Callable[..., Worker]):
    hand = worker()
    hand.turn(order, {"type": "ContinueAsNew", "input": 2})
    timer = later(0.2, lambda: hand.turn(order, complete("last")))
    result = cli("workflow", "wait", order)
    timer.join()
    assert (result.code, result.json["result"]) == (0, "last")


@pytest.mark.parametrize("seconds", ["0", "0.3", "300ms"])
def test_a_wait_that_is_too_short(cli: Cli, order: str, seconds: str):
    result = cli("workflow", "wait", order, "--timeout", seconds)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("timed out after ")


def test_a_table_says_nothing_where_nobody_reads(cli: Cli, order: str):
    cli("workflow", "terminate", order)
    assert cli("workflow", "wait", order, "--output", "table") == (1, "", "")


def test_wait_for_what_is_not_there(cli: Cli):
    result = cli("workflow", "wait", "nobody")
    assert result.code == 1
    assert result.err.startswith("error: workflow wait: HTTP 404: ")


def test_a_target_that_is_not_the_end(cli: Cli, order: str, worker: Callable[..., Worker]):
    hand = worker()
    timer = later(0.3, lambda: hand.turn(order, {"type": "WaitForSignal", "name": "go"}))
    result = cli("workflow", "wait", order, "--target", "running", "--timeout", "20")
    timer.join()
    assert (result.code, result.json["status"]) == (0, "RUNNING")


def test_a_target_that_is_a_bad_end(cli: Cli, order: str):
    cli("workflow", "terminate", order)
    result = cli("workflow", "wait", order, "--target", "failed", "--timeout", "20")
    assert (result.code, result.json["status"]) == (0, "FAILED")


def test_another_end_than_the_target_is_passed_by(cli: Cli, order: str, worker: Callable[..., Worker]):
    cli("workflow", "terminate", order)
    assert cli("workflow", "wait", order, "--target", "completed", "--timeout", "0.2").code == 2
    hand = worker()
    hand.task()  # whatever is left of the first run
    hand.http.start(order, namespace=cli("workflow", "describe", order).json["namespace"])
    timer = later(0.3, lambda: hand.turn(order, complete()))
    assert cli("workflow", "wait", order, "--target", "completed", "--timeout", "20").code == 0
    timer.join()


def test_an_unknown_target_is_a_wrong_call(cli: Cli, order: str):
    assert cli("workflow", "wait", order, "--target", "DONE").code == 64


def test_waiting_does_not_ask_all_the_time(stubbed: Cli, stub: Stub):
    stub.answer(OPEN, 202)
    stub.answer({**OPEN, "status": "COMPLETED"})
    stub.answer({"id": "o", "status": "COMPLETED"})
    assert stubbed("workflow", "wait", "o", "--timeout", "60").code == 0
    first, second, described = (requests.path for requests in stub.requests)
    assert "wait_secs=0" in first
    assert "wait_secs=20" in second
    assert "run_id=r" in second  # the run that was open at first, should the id be started anew
    assert described.startswith("/api/v1/workflows/o?")


# start and wait, result


def test_start_and_wait(cli: Cli, worker: Callable[..., Worker]):
    hand = worker()
    timer = later(0.3, lambda: hand.turn("o", complete([1, 2])))
    result = cli("workflow", "start", "--type", "Order", "--id", "o", "--wait")
    timer.join()
    assert (result.code, result.json["status"], result.json["result"]) == (0, "COMPLETED", [1, 2])


def test_start_and_wait_for_a_failure(cli: Cli, worker: Callable[..., Worker]):
    hand = worker()
    timer = later(0.3, lambda: hand.turn("o", {"type": "FailWorkflow", "error": "broken"}))
    result = cli("workflow", "start", "--type", "Order", "--id", "o", "--wait")
    timer.join()
    assert (result.code, result.json["error"]) == (1, "broken")


def test_start_and_wait_too_short(cli: Cli):
    result = cli("workflow", "start", "--type", "Order", "--id", "o", "--wait", "--timeout", "0.2")
    assert (result.code, result.out) == (2, "")


def test_result(cli: Cli, order: str, worker: Callable[..., Worker]):
    assert cli("workflow", "result", order).json["status"] == "PENDING"
    assert cli("workflow", "result", order, "--wait", "0.2").code == 2
    hand = worker()
    hand.turn(order, {"type": "ContinueAsNew", "input": 2})
    first = cli("workflow", "runs", order).json[-1]["run_id"]
    assert cli("workflow", "result", order, "--run-id", first).json["close_reason"] == "continued_as_new"
    assert cli("workflow", "result", order, "--run-id", first, "--wait", "5").json["run_id"] == first
    timer = later(0.2, lambda: hand.turn(order, {"type": "FailWorkflow", "error": "broken"}))
    result = cli("workflow", "result", order, "--wait", "20")
    timer.join()
    assert (result.code, result.json["status"], result.json["error"]) == (1, "FAILED", "broken")
    result = cli("workflow", "result", order)
    assert (result.code, result.json["status"]) == (1, "FAILED")


# follow


def test_every_closing_event_is_known():
    assert {kind.__name__ for kind in CLOSE_REASONS} == waiting.CLOSING


@pytest.mark.parametrize(
    ("commands", "last"),
    [
        ([complete()], "WorkflowCompleted"),
        ([{"type": "FailWorkflow", "error": "x"}], "WorkflowFailed"),
        ([{"type": "CancelWorkflow"}], "WorkflowCancelled"),
        ([{"type": "ContinueAsNew", "input": 1}], "WorkflowContinuedAsNew"),
    ],
)
def test_follow_ends_when_a_worker_ends_the_run(
    cli: Cli, order: str, worker: Callable[..., Worker], commands: list[dict[str, Any]], last: str
):
    hand = worker()
    timer = later(0.3, lambda: hand.turn(order, *commands))
    result = cli("workflow", "events", order, "--follow")
    timer.join()
    assert result.code == 0
    assert [event["seq"] for event in result.lines] == list(range(1, len(result.lines) + 1))
    assert result.lines[-1]["event_type"] == last


@pytest.mark.parametrize(("command", "last"), [("terminate", "WorkflowTerminated"), ("cancel", "WorkflowCancelled")])
def test_follow_ends_when_somebody_ends_the_run(
    cli: Cli, order: str, engine: Server, namespace: str, command: str, last: str
):
    http = engine.http()
    timer = later(0.3, lambda: http.post(f"/workflows/{order}/{command}?namespace={namespace}"))
    result = cli("workflow", "events", order, "--follow", "--output", "yaml")
    timer.join()
    assert (result.code, result.lines[-1]["event_type"]) == (0, last)


def test_follow_ends_when_the_run_times_out(cli: Cli):
    cli("workflow", "start", "--type", "Order", "--id", "o", "--run-timeout", "0.3")
    assert cli("workflow", "events", "o", "--follow").lines[-1]["event_type"] == "WorkflowTimedOut"


def test_follow_as_a_table(cli: Cli, order: str):
    cli("workflow", "cancel", order)
    lines = cli("workflow", "events", order, "--follow", "--output", "table").out.splitlines()
    assert [line[:38] for line in lines] == [
        "   1  WorkflowStarted                 ",
        "   2  WorkflowCancelRequested         ",
        "   3  WorkflowCancelled               ",
    ]
    assert [line[38:].split()[0][-1] for line in lines] == ["Z"] * 3
    assert [line[38:].split()[1:] for line in lines] == [["Order", "-"], ["-", "-"], ["-", "-"]]


def test_follow_what_is_not_there(cli: Cli):
    assert cli("workflow", "events", "nobody", "--follow").code == 1


def test_a_long_history_is_read_page_by_page(cli: Cli, order: str, monkeypatch: pytest.MonkeyPatch):
    for number in range(5):
        cli("workflow", "signal", order, "go", str(number))
    whole = cli("workflow", "events", order).json
    monkeypatch.setattr("assay.cli.waiting.HISTORY_PAGE_EVENTS", 2)
    assert cli("workflow", "events", order).json == whole
    cli("workflow", "terminate", order)
    assert [event["seq"] for event in cli("workflow", "events", order, "--follow").lines] == [1, 2, 3, 4, 5, 6, 7]


# an engine that goes away


def test_wait_and_follow_outlive_a_restart(tmp_path: Path):
    server = Server(tmp_path, "--backend", "sqlite://w.db")
    server.http().start("o")
    environment = plain_environment(tmp_path, ASSAY_ENGINE_URL=f"http://127.0.0.1:{server.port}")
    with (
        follow("wait", environment) as waiter,
        follow("events --follow", environment) as follower,
    ):
        assert follower.stdout is not None
        assert b"WorkflowStarted" in follower.stdout.readline()
        waiting.pause(1)  # the other one says nothing until it ends
        server.kill()
        server.close()
        with serving(tmp_path, "--port", str(server.port), "--backend", "sqlite://w.db") as again:
            again.http().post("/workflows/o/terminate")
            ended = [(one.communicate(timeout=SECONDS)[0], one.returncode) for one in (waiter, follower)]
    assert [code for _, code in ended] == [1, 0]
    assert b"WorkflowTerminated" in ended[1][0]


def follow(command: str, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    arguments = [*PROGRAM, "workflow", *command.split(), "o"]
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE)  # noqa: S603


def test_an_engine_that_stays_away(stubbed: Cli, stub: Stub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(waiting, "AWAY_SECONDS", 0.3)
    stub.answer(OPEN, 202)
    for _ in range(10):
        stub.answer({"error": "starting"}, 503)
    result: CommandResult = stubbed("workflow", "wait", "o", "--timeout", "60")
    assert result.code == 1
    assert "HTTP 503" in result.err


@pytest.mark.usefixtures("order")
def test_ctrl_c_ends_a_follow():
    with follow("events --follow", dict(os.environ)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert time.monotonic() - began < 5
