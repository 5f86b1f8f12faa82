from pathlib import Path

import pytest

from tests.cli.support import Cli, Stub

KEYS = ["engine_url", "api_key", "api_key_file", "namespace", "output"]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config file where it is looked for."""
    file = tmp_path / "xdg" / "assay" / "config.yaml"
    file.parent.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return file


def namespace_of(stub: Stub) -> str:
    return stub.last.path.rpartition("namespace=")[2]


# precedence


def test_flag_then_environment_then_file_then_default(
    bare: Cli, stub: Stub, config: Path, monkeypatch: pytest.MonkeyPatch
):
    url = ["--engine-url", stub.url]
    bare("queue", "stats", *url)
    assert namespace_of(stub) == "main"
    config.write_text("namespace: from-file\n")
    bare("queue", "stats", *url)
    assert namespace_of(stub) == "from-file"
    monkeypatch.setenv("ASSAY_NAMESPACE", "from-environment")
    bare("queue", "stats", *url)
    assert namespace_of(stub) == "from-environment"
    bare("queue", "stats", *url, "--namespace", "from-flag")
    assert namespace_of(stub) == "from-flag"


def test_a_file_may_say_everything(bare: Cli, stub: Stub, config: Path):
    config.write_text(f"engine_url: {stub.url}/\napi_key: secret\nnamespace: n\noutput: YML\n")
    stub.answer([{"queue": "q"}])
    result = bare("queue", "stats")
    assert (result.code, result.out) == (0, "- queue: q\n")
    assert stub.last.headers["authorization"] == "Bearer secret"
    assert namespace_of(stub) == "n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--output", "jsonl", "queue", "stats"],
        ["queue", "--output", "jsonl", "stats"],
        ["queue", "stats", "--output", "jsonl"],
        ["queue", "--output", "table", "stats", "--output=JSONL"],
    ],
)
def test_flags_may_stand_anywhere(stubbed: Cli, stub: Stub, arguments: list[str]):
    stub.answer([{"a": 1}, {"a": 2}])
    assert stubbed(*arguments).out == '{"a":1}\n{"a":2}\n'


def test_a_flag_before_a_command_that_does_not_take_it(bare: Cli):
    result = bare("--namespace", "x", "completion", "bash")
    assert (result.code, result.out) == (64, "")
    assert "--namespace" in result.err


def test_an_empty_variable_is_none(stubbed: Cli, stub: Stub, monkeypatch: pytest.MonkeyPatch):
    for name in ("ASSAY_NAMESPACE", "ASSAY_API_KEY", "ASSAY_API_KEY_FILE", "ASSAY_OUTPUT", "ASSAY_CONFIG_FILE"):
        monkeypatch.setenv(name, "")
    assert stubbed("queue", "stats").code == 0
    assert namespace_of(stub) == "main"
    assert "authorization" not in stub.last.headers


# the file


def test_places_in_their_order(stubbed: Cli, stub: Stub, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    below_home = tmp_path / ".config" / "assay" / "config.yaml"
    below_home.parent.mkdir(parents=True)
    named, by_variable = tmp_path / "named.yaml", tmp_path / "variable.yaml"
    for file in (below_home, config, by_variable, named):
        file.write_text(f"namespace: {file.parent.parent.name}-{file.stem}")
    stubbed("queue", "stats", "--config", str(named))
    assert namespace_of(stub).endswith("-named")
    monkeypatch.setenv("ASSAY_CONFIG_FILE", str(by_variable))
    stubbed("queue", "stats")
    assert namespace_of(stub).endswith("-variable")
    monkeypatch.delenv("ASSAY_CONFIG_FILE")
    stubbed("queue", "stats")
    assert namespace_of(stub) == "xdg-config"
    config.unlink()
    stubbed("queue", "stats")
    assert namespace_of(stub) == ".config-config"


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_a_named_file_must_be_there(stubbed: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str):
    missing = str(tmp_path / "missing.yaml")
    if by == "variable":
        monkeypatch.setenv("ASSAY_CONFIG_FILE", missing)
    result = stubbed("queue", "stats", *(["--config", missing] if by == "flag" else []))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: config file {missing} cannot be read: ")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("namespce: x", "unknown key namespce"),
        ("namespace: [", "is not YAML: expected the node content, but found '<stream end>' in line 1, column 13"),
        ("output: table\nnamespace: a: b\n", "is not YAML: mapping values are not allowed here in line 2, column 13"),
        ("namespace: \x01", "is not YAML: unacceptable character #x0001"),
        ("- a", "must hold"),
        ("namespace: 5", "must be a text"),
        ("output: xml", "unknown output format 'xml'"),
        ("engine_url: localhost:8080", "must be like http://"),
        ("api_key_file: /nowhere/key", "API key file /nowhere/key cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_a_bad_file(stubbed: Cli, config: Path, monkeypatch: pytest.MonkeyPatch, content: str | bytes, problem: str):
    monkeypatch.delenv("ASSAY_ENGINE_URL")
    config.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = stubbed("queue", "stats")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert problem in result.err


@pytest.mark.parametrize("content", ["", "# nothing\n", "namespace:\n"])
def test_an_empty_file(stubbed: Cli, stub: Stub, config: Path, content: str):
    config.write_text(content)
    assert stubbed("queue", "stats").code == 0
    assert namespace_of(stub) == "main"


# keys


def test_a_key_file_is_trimmed_and_beats_a_key(stubbed: Cli, stub: Stub, config: Path, tmp_path: Path):
    key = tmp_path / "key"
    key.write_text("\n from-file \n")
    config.write_text(f"engine_url: {stub.url}\napi_key: direct\napi_key_file: {key}\n")
    stubbed("queue", "stats")
    assert stub.last.headers["authorization"] == "Bearer from-file"


def test_where_a_key_comes_from(
    stubbed: Cli, stub: Stub, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config.write_text(f"engine_url: {stub.url}\napi_key: from-config\n")
    stubbed("queue", "stats")
    assert stub.last.headers["authorization"] == "Bearer from-config"
    monkeypatch.setenv("ASSAY_API_KEY", "from-variable")
    stubbed("queue", "stats")
    assert stub.last.headers["authorization"] == "Bearer from-variable"
    key = tmp_path / "key"
    key.write_text("from-file\n")
    monkeypatch.setenv("ASSAY_API_KEY_FILE", str(key))
    stubbed("queue", "stats")
    assert stub.last.headers["authorization"] == "Bearer from-file"
    stubbed("queue", "stats", "--api-key", "from-flag")
    assert stub.last.headers["authorization"] == "Bearer from-flag"
    monkeypatch.setenv("ASSAY_API_KEY_FILE", str(tmp_path / "missing"))
    assert stubbed("queue", "stats").code == 1


@pytest.mark.parametrize("other", ["", "engine_url: https://engine.example\n"])
def test_a_key_of_the_config_file_goes_to_no_other_engine(stubbed: Cli, stub: Stub, config: Path, other: str):
    config.write_text(f"{other}api_key: secret\n")
    assert stubbed("queue", "stats").code == 0  # at the engine of the environment
    assert "authorization" not in stub.last.headers


def test_no_key_no_header(stubbed: Cli, stub: Stub):
    stubbed("queue", "stats")
    assert "authorization" not in stub.last.headers


def test_a_key_that_cannot_be_sent(stubbed: Cli, stub: Stub):
    assert stubbed("queue", "stats", "--api-key", "a\nb: c").code == 1
    assert stub.requests == []


# output


def test_an_unknown_format(stubbed: Cli, stub: Stub):
    result = stubbed("queue", "stats", "--output", "xml")
    assert (result.code, result.out) == (1, "")
    assert result.err == "error: unknown output format 'xml': choose table, json, jsonl or yaml\n"
    assert stub.requests == []
