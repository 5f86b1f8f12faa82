import io
import json
import logging
import sys
from collections.abc import Callable, Iterator

import pytest

from assay.server.logs import TRACEBACK_LIMIT, VALUE_LIMIT, JsonLines, Readable, Throttle, install, one_line, redacted

log = logging.getLogger("assay.test")
KEY = "assay_" + "0123456789abcdef" * 4


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, object]]]]:
    stream = io.StringIO()
    uninstall = install("DEBUG", stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    uninstall()


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("assay.test", logging.INFO, __file__, 1, message, args, None)
    made.__dict__.update(extra)
    return made


def test_elsewhere_than_on_a_terminal_each_record_is_one_json_line(lines: Callable[[], list[dict[str, object]]]):
    log.info("run %s started", "o-1", extra={"workflow_id": "o-1", "attempt": 2})
    (line,) = lines()
    assert {name: line[name] for name in ("level", "logger", "message", "workflow_id", "attempt")} == {
        "level": "info",
        "logger": "assay.test",
        "message": "run o-1 started",
        "workflow_id": "o-1",
        "attempt": 2,
    }
    assert str(line["time"]).endswith("+00:00")


def test_a_terminal_gets_colours_and_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    uninstall = install("INFO", stream)
    log.warning("slow disk", extra={"seconds": 1.5})
    log.debug("not shown")
    uninstall()
    (line,) = stream.getvalue().splitlines()
    assert "\x1b[33mWARNING" in line
    assert line.endswith("assay.test: slow disk seconds=1.5")


def test_colours_can_be_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    uninstall = install("INFO", stream)
    log.info("plain")
    uninstall()
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_may_get_json_and_a_file_may_get_words():
    stream = Terminal()
    uninstall = install("INFO", stream, json_lines=True)
    log.info("x")
    uninstall()
    assert json.loads(stream.getvalue())["message"] == "x"


@pytest.mark.parametrize(
    "evil", ["a\nb", "a\r\nb", "a\x1b[31mb", "a\u2028b", "a\u2029b", "a\x85b", "a\x00b", "a\u202eb"]
)
def test_a_record_is_one_line_without_raw_escapes(evil: str):
    for formatter in (JsonLines(), Readable(colors=False)):
        text = formatter.format(record("id %s", evil, workflow_id=evil))
        assert len(text.splitlines()) == 1
        assert not set(text) & set("\n\r\x1b\u2028\u2029\x85\x00\u202e")
    assert json.loads(JsonLines().format(record("%s", evil)))["message"] == evil
    assert one_line(evil).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer canary-1234",
        "headers={'authorization': 'Basic canary=='}",
        'sent {"Cookie": "session=canary; theme=dark"}',
        "X-API-Key: canary",
        "postgres://user:canary@host:5432/db",
        "postgresql://user:p@ss:canary@host/db?sslmode=require",
        "dsn password=canary host=db",
        "https://engine?token=canary&x=1",
        f"key {KEY} was used (canary)",
        "Set-Cookie: sid=canary",
        "proxy-authorization: canary",
    ],
)
def test_secrets_do_not_reach_a_log(text: str):
    shown = redacted(text.replace("(canary)", ""))
    assert "canary" not in shown
    assert KEY not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "text", ["sqlite:///var/lib/app.db", "12:30:05 user@host", "postgres://host/db", "the tokens: 5"]
)
def test_what_is_no_secret_stays(text: str):
    assert redacted(text) == text


def test_fields_with_telling_names_are_hidden():
    line = json.loads(JsonLines().format(record("call", authorization="canary", x_api_key="canary", api_key="canary")))
    assert (line["authorization"], line["x_api_key"], line["api_key"]) == ("***", "***", "***")


def test_values_are_cut():
    line = json.loads(JsonLines().format(record("x" * 5000, payload="y" * 5000, thing={"z": "z" * 5000})))
    for name in ("message", "payload", "thing"):
        assert len(line[name]) < VALUE_LIMIT + 40
        assert "bytes cut" in line[name]


def test_a_secret_is_hidden_before_the_cut():
    text = "a" * (VALUE_LIMIT - 30) + " postgres://user:canary@" + "h" * 100
    assert "canary" not in JsonLines().format(record(text))


def test_tracebacks_keep_their_end(lines: Callable[[], list[dict[str, object]]]):
    def deep(level: int) -> None:
        if level:
            deep(level - 1)
        raise ValueError(f"bad\nnews {KEY} " + "x" * TRACEBACK_LIMIT)

    try:
        deep(3)
    except ValueError:
        log.exception("failed")
    (line,) = lines()
    trace = str(line["exception"])
    assert trace.endswith("x")
    assert len(trace) < TRACEBACK_LIMIT + 40
    assert KEY not in trace


def test_a_traceback_for_people_is_indented():
    try:
        raise ValueError("bad\x1b[31m news")
    except ValueError:
        made = logging.LogRecord("assay", logging.ERROR, __file__, 1, "failed", (), sys.exc_info())
    first, *rest = Readable(colors=False).format(made).splitlines()
    assert first.endswith("assay: failed")
    assert all(row.startswith("    ") for row in rest)
    assert "\x1b" not in rest[-1]


def test_a_bad_format_still_logs():
    assert "%d" in json.loads(JsonLines().format(record("%d of them", "many")))["message"]


def test_what_was_installed_can_be_taken_back():
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    install("DEBUG", io.StringIO())()
    assert (root.level, root.handlers) == before


@pytest.mark.parametrize(
    "letter", "\u061c\u200b\u200e\u200f\u2028\u202a\u202e\u2060\u2066\u2069\u206f\ufeff\ufffb\xad\x9b\x1b"
)
def test_nothing_in_an_id_moves_or_turns_the_text_around_it(letter: str):
    shown = Readable(colors=False).format(record("run %s started", f"a{letter}b", workflow_id=f"c{letter}d"))
    assert letter not in shown
    assert f"a\\u{ord(letter):04x}b" in shown
    line = JsonLines().format(record("x", workflow_id=f"c{letter}d"))
    assert letter not in line
    assert json.loads(line)["workflow_id"] == f"c{letter}d"


def test_letters_of_all_scripts_stay_as_they_are():
    text = "\u05e9\u05dc\u05d5\u05dd \u5951\u7d04 \U0001f469\u200d\U0001f467 \u0646\u0645\u200c\u0645"
    assert one_line(text) == text


def test_warnings_that_strangers_cause_are_counted_and_not_all_written():
    throttle, passed = Throttle(most=3, seconds=60), list[str]()

    def happens(second: float, message: str = "Invalid HTTP request received.", level: int = logging.WARNING) -> None:
        made = logging.LogRecord("uvicorn.error", level, __file__, 1, message, (), None)
        made.created = second
        if throttle.filter(made):
            passed.append(made.getMessage())

    for number in range(1_000):
        happens(number * 0.05)
    assert passed == ["Invalid HTTP request received."] * 3
    happens(50, "another")
    happens(50, level=logging.ERROR)
    happens(61)
    assert passed[3:] == [
        "another",
        "Invalid HTTP request received.",
        "Invalid HTTP request received. (997 more like this were not logged)",
    ]
    happens(62)
    assert passed[6:] == ["Invalid HTTP request received."]


def test_messages_of_any_number_cost_no_memory():
    throttle = Throttle()
    for number in range(5_000):
        throttle.filter(record(f"message {number}"))
    assert len(throttle._kinds) <= 1_000


def test_a_program_throttles_what_clients_cause(lines: Callable[[], list[dict[str, object]]]):
    for _ in range(1_000):
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        log.warning("our own")
    assert [line["logger"] for line in lines()].count("uvicorn.error") == 10
    assert len(lines()) == 1_010
