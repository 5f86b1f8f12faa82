import subprocess
from pathlib import Path

import pytest

from assay.cli.render import Column, table
from assay.cli.times import timestamp
from tests.cli.support import PROGRAM, SECONDS, Cli, Stub, on_terminal, plain_environment, spawn

NASTY = "\x1b[31mred\x07\nline\x9b2J\u202eback\u2028"
COLUMNS = (Column("A", "a"), Column("LONG TITLE", "b"), Column("LAST", "c"))


@pytest.fixture
def environment(stub: Stub, tmp_path: Path) -> dict[str, str]:
    return plain_environment(tmp_path, ASSAY_ENGINE_URL=stub.url, TERM="xterm", NO_COLOR="1")


# tables


def test_columns_are_as_wide_as_their_widest():
    rows = [{"a": "longer", "b": 1, "c": True}, {"a": "", "b": None}, {"b": [1, {"x": "ü"}], "c": 2.5}]
    assert list(table(rows, COLUMNS)) == [
        "A       LONG TITLE     LAST",
        "longer  1              true",
        "        -              -",
        '-       [1,{"x":"ü"}]  2.5',
    ]


def test_a_table_without_rows():
    assert list(table([], COLUMNS)) == ["A  LONG TITLE  LAST"]


def test_a_row_stays_on_its_line():
    (_, row) = table([{"a": NASTY}], COLUMNS[:1])
    assert row.isprintable()
    assert "red" in row


def test_times():
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert timestamp(1_794_803_839.112862) == "2026-11-16T04:37:19.112Z"
    assert timestamp(1e300) == "1e+300"


# lists of nothing


@pytest.mark.parametrize(("output", "text"), [("json", "[]\n"), ("jsonl", ""), ("yaml", "[]\n")])
def test_an_empty_list(stubbed: Cli, output: str, text: str):
    assert stubbed("queue", "stats", "--output", output).out == text


def test_other_letters_stay_what_they_are(stub: Stub, environment: dict[str, str]):
    for locale in ({"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}):
        for output in ("json", "jsonl", "yaml", "table"):
            stub.answer([{"queue": "ünï-名"}])
            result = spawn(["queue", "stats", "--output", output], {**environment, **locale})
            assert result.code == 0
            assert "ünï-名" in result.out


def test_half_a_letter(stubbed: Cli, stub: Stub):
    stub.answer(b'[{"queue": "\\ud83e"}]')
    assert stubbed("queue", "stats").json == [{"queue": "\ud83e"}]


def test_a_full_disk(stub: Stub, environment: dict[str, str]):
    command = [*PROGRAM, "queue", "stats", "--output", "table"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(  # noqa: S603
            command, env=environment, stdout=full, stderr=subprocess.PIPE, timeout=SECONDS, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"error: the answer cannot be written: No space left on device\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_closed_streams(stub: Stub, environment: dict[str, str], closed: str):
    line = f'exec "$@" {closed}'
    done = subprocess.run(  # noqa: S603
        ["sh", "-c", line, "sh", *PROGRAM, "queue", "stats"],  # noqa: S607
        env=environment,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


# on a terminal


def test_a_terminal_gets_a_table(stub: Stub, environment: dict[str, str]):
    stub.answer([{"queue": "q", "workers": 2}])
    result = on_terminal(["queue", "stats"], {**environment, "NO_COLOR": ""})
    header = "\x1b[1mQUEUE  PENDING  RUNNING  WORKERS  TASKS\x1b[0m"
    assert (result.code, result.out) == (0, f"{header}\nq      -        -        2        -\n")
    stub.answer([{"queue": "q"}])
    assert on_terminal(["queue", "stats", "--output", "json"], environment).json == [{"queue": "q"}]


@pytest.mark.parametrize("output", ["table", "json", "jsonl", "yaml"])
def test_nobody_elses_text_steers_a_terminal(stub: Stub, environment: dict[str, str], output: str):
    stub.answer([{"queue": NASTY}])
    result = on_terminal(["queue", "stats", "--output", output], environment)
    assert result.code == 0
    assert result.out.replace("\n", "").isprintable()
    stub.answer({"id": NASTY, "status": "RUNNING"})
    assert on_terminal(["workflow", "describe", "o"], environment).out.replace("\n", "").isprintable()
    stub.answer(f"no {NASTY}".encode(), 400)
    result = on_terminal(["queue", "stats"], environment)
    assert result.code == 1
    assert result.out.removesuffix("\n").isprintable()


def test_a_pipe_gets_the_text_as_it_is(stubbed: Cli, stub: Stub):
    stub.answer([{"queue": NASTY}])
    assert stubbed("queue", "stats").json == [{"queue": NASTY}]


def test_a_key_on_the_line_is_warned_of(stub: Stub, environment: dict[str, str]):
    result = on_terminal(["queue", "stats", "--api-key", "assay_secret"], environment)
    assert result.out.startswith("warning: --api-key can be read by everybody")
    assert "assay_secret" not in result.out
    assert spawn(["queue", "stats", "--api-key", "k"], environment).err == ""


def test_wait_says_the_status_to_people(stub: Stub, environment: dict[str, str]):
    stub.answer({"workflow_id": "o", "run_id": "r", "status": "COMPLETED"})
    stub.answer({"id": "o", "status": "COMPLETED"})
    assert on_terminal(["workflow", "wait", "o"], environment).out == "o COMPLETED\n"
