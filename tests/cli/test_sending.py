"""Messages from the command line: with a start, as signals, and as updates with an answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api.support import Worker
from tests.cli.support import Cli


def received(cli: Cli, workflow_id: str) -> list[dict[str, Any]]:
    events = cli("workflow", "events", workflow_id).json
    return [event["payload"] for event in events if event["event_type"] == "SignalReceived"]


def answer(update_id: str, topic: str, payload: Any = None) -> dict[str, Any]:
    return {"type": "UpdateResponse", "update_id": update_id, "answer": topic, "payload": payload}


def test_a_start_takes_messages_in_order(cli: Cli, tmp_path: Path):
    (tmp_path / "m.json").write_text('{"a": "="}', encoding="utf-8")
    messages = ["--message", "go", "--message", "add=-5", "--message", f"order=@{tmp_path}/m.json"]
    assert cli("workflow", "start", "--type", "Order", "--id", "o", *messages).code == 0
    found = [(one["signal"], one["payload"]) for one in received(cli, "o")]
    assert found == [("go", None), ("add", -5), ("order", {"a": "="})]


@pytest.mark.parametrize("message", ["=1", "add=many", "add="])
def test_a_bad_message_is_a_wrong_call(cli: Cli, message: str):
    result = cli("workflow", "start", "--type", "Order", "--id", "o", "--message", message)
    assert result.code == 64
    assert "--message" in result.err
    assert cli("workflow", "describe", "o").code == 1


def test_a_signal_has_a_sender_and_several_payloads(cli: Cli):
    cli("workflow", "start", "--type", "Order", "--id", "o")
    result = cli("workflow", "signal", "o", "add", "--args", '[1, "two"]', "--from", "wf://main/shop")
    assert (result.code, result.err) == (0, "")
    assert cli("workflow", "signal", "o", "add", "-5").code == 0
    first, second = received(cli, "o")
    assert (first["signal"], first["args"], first["from"]) == ("add", [1, "two"], "wf://main/shop")
    assert (second["payload"], second.get("from")) == (-5, None)


@pytest.mark.parametrize("verb", ["signal", "update"])
@pytest.mark.parametrize("arguments", [["1", "--args", "[2]"], ["--args", '{"a": 1}']])
def test_a_payload_and_a_list_exclude_each_other(cli: Cli, verb: str, arguments: list[str]):
    cli("workflow", "start", "--type", "Order", "--id", "o")
    result = cli("workflow", verb, "o", "add", *arguments)
    assert result.code == 64
    assert "--args" in result.err


def test_an_update_prints_its_answer(cli: Cli, worker: Callable[..., Worker]):
    cli("workflow", "start", "--type", "Order", "--id", "o")
    hand = worker()
    hand.turn("o")
    call = ("workflow", "update", "o", "add", "-1", "--update-id", "u-1")
    assert cli(*call, "--timeout", "0").code == 2
    hand.turn("o", answer("u-1", "ack"), answer("u-1", "ok", {"n": 2}))
    result = cli(*call)
    assert (result.code, result.err) == (0, "")
    assert result.json == {"update_id": "u-1", "status": "completed", "result": {"n": 2}, "failure": None}
    (update,) = [one for one in cli("workflow", "events", "o").json if one["event_type"] == "UpdateReceived"]
    assert update["payload"]["args"] == [-1]


def test_an_update_without_an_answer_ends_the_wait(cli: Cli, worker: Callable[..., Worker]):
    cli("workflow", "start", "--type", "Order", "--id", "o")
    hand = worker()
    hand.turn("o")
    call = ("workflow", "update", "o", "add", "--update-id", "u-1", "--timeout", "0.01")
    result = cli(*call)
    assert (result.code, result.out) == (2, "")
    assert result.err == "timed out after 0.01 s waiting for update u-1 of o\n"
    hand.turn("o", answer("u-1", "ack"))
    assert cli(*call).code == 2
    accepted = cli(*call, "--wait", "accepted")
    assert (accepted.code, accepted.json["status"]) == (0, "accepted")
    cli("workflow", "signal", "o", "go")
    hand.turn("o", answer("u-1", "error", "no"))
    failed = cli(*call)
    assert (failed.code, failed.json["status"]) == (1, "failed")
    assert failed.json["failure"]["message"] == "no"


def test_a_rejected_update_and_one_of_no_run_fail(cli: Cli, worker: Callable[..., Worker]):
    assert "HTTP 404" in cli("workflow", "update", "nobody", "add").err
    cli("workflow", "start", "--type", "Order", "--id", "o")
    hand = worker()
    hand.turn("o")
    call = ("workflow", "update", "o", "add", "--update-id", "u-1", "--timeout", "0")
    assert cli(*call).code == 2
    hand.turn("o", answer("u-1", "nak", "not today"))
    result = cli(*call, "--wait", "accepted")
    assert (result.code, result.json["status"]) == (1, "rejected")
