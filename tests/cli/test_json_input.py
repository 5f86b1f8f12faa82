import json
from pathlib import Path

import pytest

from tests.api.support import Server
from tests.cli.support import Cli, Stub, plain_environment, spawn

START = ["workflow", "start", "--type", "Order", "--id", "o", "--input"]


@pytest.mark.parametrize(
    "value", ["5", '"x"', "null", "[1, 2.5, {}]", '{"ü": "\\u00fc"}', "-1", "12345678901234567890"]
)
def test_a_literal(cli: Cli, value: str):
    assert cli(*START, value).code == 0
    assert cli("workflow", "describe", "o").json["input"] == json.loads(value)


def test_a_file(cli: Cli, tmp_path: Path):
    file = tmp_path / "in put.json"
    file.write_bytes(b'\xef\xbb\xbf{"from": "file"}\n')  # some editors begin with a mark
    assert cli(*START, f"@{file}").code == 0
    assert cli("workflow", "describe", "o").json["input"] == {"from": "file"}


def test_standard_input(engine: Server, namespace: str, tmp_path: Path):
    url = f"http://127.0.0.1:{engine.port}"
    environment = plain_environment(tmp_path, ASSAY_ENGINE_URL=url, ASSAY_NAMESPACE=namespace)
    assert spawn([*START, "-"], environment, '{"from": "stdin ü"}').code == 0
    assert spawn(["workflow", "describe", "o"], environment).json["input"] == {"from": "stdin ü"}
    assert spawn(["workflow", "signal", "o", "go", "-"], environment, "[1]").code == 0
    events = spawn(["workflow", "events", "o"], environment).json
    assert events[-1]["payload"]["payload"] == [1]
    result = spawn(["workflow", "signal", "o", "go", "-"], environment, "")
    assert (result.code, result.out) == (64, "")


@pytest.mark.parametrize("value", ["", "{", "nope", "{'a': 1}", "[1,]", "NaN", "-Infinity", "1e999", "[" * 100_000])
def test_what_is_no_json(cli: Cli, value: str):
    result = cli(*START, value)
    assert (result.code, result.out) == (64, "")
    assert "Invalid value for '--input': not JSON: " in result.err


def test_a_file_that_cannot_be_read(cli: Cli, tmp_path: Path):
    result = cli(*START, f"@{tmp_path}/missing.json")
    assert (result.code, result.out) == (64, "")
    assert f"cannot read {tmp_path}/missing.json" in result.err
    assert cli(*START, f"@{tmp_path}").code == 64
    broken = tmp_path / "broken.json"
    broken.write_bytes(b"\xff")
    assert cli(*START, f"@{broken}").code == 64


@pytest.mark.parametrize(
    "arguments",
    [
        ["workflow", "list", "--search-attrs", "[]"],
        ["workflow", "list", "--search-attrs", "{"],
        ["workflow", "signal", "o", "go", "{"],
        ["workflow", "continue-as-new", "o", "--input", "{"],
        ["schedule", "create", "s", "--type", "T", "--cron", "@daily", "--input", "{"],
        ["schedule", "patch", "s", "--input", "@/nowhere"],
    ],
)
def test_every_document_is_checked(cli: Cli, arguments: list[str]):
    result = cli(*arguments)
    assert (result.code, result.out) == (64, "")


@pytest.mark.parametrize("value", ["-5", "-0.25", "-1e3"])
def test_a_negative_number_is_no_option(stubbed: Cli, stub: Stub, value: str):
    lines = [
        ["signal", "o", "go", value],
        ["signal", "--run-id", "r", "o", "go", value],
        ["signal", "o", "go", value, "--run-id", "r", "--output", "table"],
        ["signal", "o", "--run-id=r", "go", "--", value],
    ]
    for line in lines:
        assert stubbed("workflow", *line).code == 0
        assert stub.last.path.startswith("/api/v1/workflows/o/signal/go?")
        assert ("run_id=r" in stub.last.path) == (len(line) > 4)
        assert stub.last.body == {"payload": float(value)}
    assert stubbed("workflow", "signal", "o", value).code == 0
    assert stub.last.path.startswith(f"/api/v1/workflows/o/signal/{value}?")


def test_what_only_begins_like_a_number_is_still_refused(stubbed: Cli):
    assert stubbed("workflow", "signal", "o", "go", "-5", "6").code == 64
    assert stubbed("workflow", "signal", "o", "go", "-x").code == 64
    assert stubbed("workflow", "signal", "o", "go", "-5", "--bogus").code == 64
    assert stubbed("workflow", "signal", "o", "go", "-5x").code == 64
