"""A worker's message is decoded whole; an invalid report is refused alone."""

from typing import Any

import msgspec
import pytest

from assay.core.model.errors import Invalid
from assay.worker_protocol import messages as wire
from assay.worker_protocol.decode import decode_worker_message

GOOD = {"type": "complete_activity", "n": 1, "token": "t-1", "result": {"ok": True}}
HELLO = {"queue": "default", "namespace": "main"}


def message(*reports: Any, **fields: Any) -> bytes:
    return msgspec.json.encode({"number": 3, "reports": reports, "freed": [1, 2], "dropped": ["r-9"], **fields})


def test_a_message_in_order_is_read_as_it_is():
    decoded = decode_worker_message(message(GOOD, hello=HELLO))
    assert decoded == msgspec.json.decode(message(GOOD, hello=HELLO), type=wire.WorkerMessage)
    assert type(decoded) is wire.WorkerMessage


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        ({"type": "advance", "commands": [{"type": "WaitForSignal", "name": 5}]}, "Expected str, got int"),
        ({"type": "advance", "commands": [{"type": "DoMagic"}]}, "Invalid value 'DoMagic'"),
        ({"type": "advance", "commands": [{"type": "WaitForSignal", "name": "a\0b"}]}, "U+0000"),
        ({"type": "fail_activity", "failure": {"retryable": 0}}, "Expected bool | null, got int"),
        ({"type": "of another version"}, "Invalid value"),
    ],
)
def test_a_report_that_makes_no_sense_is_refused_alone(report: Any, reason: str):
    decoded = decode_worker_message(message({**report, "n": 2, "token": "t-2"}, GOOD))
    bad, good = decoded.reports
    assert isinstance(bad, wire.Unreadable)
    assert (bad.n, bad.token) == (2, "t-2")
    assert reason in bad.reason
    assert isinstance(good, wire.CompleteActivityReport)
    assert bytes(good.result) == b'{"ok":true}'
    assert (decoded.number, decoded.freed, decoded.dropped) == (3, (1, 2), ("r-9",))


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        message(GOOD, {"type": "advance", "n": "two", "token": "t"}),
        message(GOOD, "no report at all"),
        message(GOOD, number="three"),
        message(GOOD, hello={**HELLO, "queue": 5}),
        message(GOOD, {"type": "nonsense", "n": 2, "token": "t"}, hello={**HELLO, "identity": "a\0b"}),
    ],
)
def test_what_else_is_wrong_is_wrong_with_the_message(body: bytes):
    with pytest.raises(Invalid):
        decode_worker_message(body)


def test_a_message_above_the_limit_is_refused_whatever_is_wrong_with_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire, "MAX_MESSAGE_BYTES", 100)
    with pytest.raises(Invalid, match="the limit is 100"):
        decode_worker_message(message(GOOD, {"type": "nonsense", "n": 2, "token": "t"}))
