import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from assay.cli.completion import SHELLS
from tests.api.support import until
from tests.cli.support import SECONDS, Cli, Stub, plain_environment, terminal

CHECKS = {
    "bash": ["bash", "-n"],
    "zsh": ["zsh", "-n"],
    "fish": ["fish", "--no-execute"],
    "powershell": ["pwsh", "-NoProfile", "-File"],
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A shell that finds `assay`."""
    program = tmp_path / "bin" / "assay"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m assay.cli.main "$@"\n')
    program.chmod(0o755)
    return plain_environment(tmp_path, PATH=f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell(bare: Cli, shell: str):
    result = bare("completion", shell)
    assert (result.code, result.err) == (0, "")
    assert "_ASSAY_COMPLETE" in result.out
    assert f"{shell}_complete" in result.out


@pytest.mark.parametrize("shell", CHECKS)
def test_a_script_is_sound(bare: Cli, tmp_path: Path, shell: str):
    if shutil.which(CHECKS[shell][0]) is None:
        pytest.skip(f"no {shell} on this machine")
    script = tmp_path / f"script.{shell}"
    script.write_text(bare("completion", shell).out)
    subprocess.run([*CHECKS[shell], str(script)], check=True, timeout=SECONDS)  # noqa: S603


def test_an_unknown_shell(bare: Cli):
    assert bare("completion", "tcsh").code == 64
    assert bare("completion").code == 64


# bash, for real


def completed(line: str, environment: dict[str, str]) -> list[str]:
    """What bash offers for the last word of a line, the script being sourced as a user would."""
    written = re.split("[ :=]", line)[-1]
    program = f"""
        source <(assay completion bash)
        complete -p assay >/dev/null || exit 9
        COMP_LINE='{line}'; COMP_POINT={len(line)}
        _assay_completion assay '{written}' ''
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(  # noqa: S603
        ["bash", "--norc", "-c", program],  # noqa: S607
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes(environment: dict[str, str]):
    assert completed("assay work", environment) == ["workflow", "worker"]
    assert completed("assay workflow te", environment) == ["terminate"]
    assert completed("assay workflow list --output j", environment) == ["json", "jsonl"]
    assert completed("assay workflow list --status c", environment) == ["completed", "cancelled", "closed"]
    assert completed("assay completion z", environment) == ["zsh"]


def test_bash_completes_ids(environment: dict[str, str], stub: Stub):
    environment["ASSAY_ENGINE_URL"] = stub.url
    stub.answer([{"id": "order-1"}, {"id": "order-1"}, {"id": "xorder"}])
    assert completed("assay workflow describe ord", environment) == ["order-1"]
    assert "text=ord" in stub.last.path
    stub.answer([{"name": "nightly"}, {"name": "weekly"}])
    assert completed("assay schedule --namespace n pause n", environment) == ["nightly"]
    assert stub.last.path == "/api/v1/schedules?namespace=n"
    stub.answer([{"name": "main"}, {"name": "staging"}])
    assert completed("assay workflow list --namespace st", environment) == ["staging"]
    stub.answer(b"no", 500)
    assert completed("assay namespace describe m", environment) == []
    environment["ASSAY_ENGINE_URL"] = "http://127.0.0.1:1"
    assert completed("assay workflow describe ord", environment) == []


def test_bash_completes_the_part_behind_a_colon(environment: dict[str, str], stub: Stub):
    environment["ASSAY_ENGINE_URL"] = stub.url
    for written in ("shop:or", "shop:", "sh"):
        stub.answer([{"id": "shop:order-1"}])
        offered = completed(f"assay workflow describe {written}", environment)
        assert offered == ["shop:order-1".removeprefix("shop:" if ":" in written else "")]
    assert completed("assay workflow list --output=js", environment) == ["json", "jsonl"]


def test_bash_completes_a_line_that_is_typed(environment: dict[str, str], stub: Stub):
    """A colon ends a word for bash alone: only a real one tells whether the line becomes what it should."""
    stub.answer([{"id": "shop:order-1"}])
    shell = {**environment, "ASSAY_ENGINE_URL": stub.url, "PS1": "ready> ", "TERM": "dumb"}
    with terminal(["bash", "--norc", "-i"], shell) as screen:
        for line in ("source <(assay completion bash)\n", "assay workflow describe shop:or\t\n"):
            screen.until("ready> ")
            screen.type_in(line)
        until(lambda: len(stub.requests) == 2)
    assert stub.last.path.startswith("/api/v1/workflows/shop%3Aorder-1?")


# the other shells, by what their scripts ask


def test_elvish_is_answered(bare: Cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("_ASSAY_COMPLETE", "elvish_complete")
    monkeypatch.setenv("COMP_WORDS", '["assay","workflow","li"]')
    assert bare().out == "plain\tlist\tlist (List runs, newest first.)\n"


@pytest.mark.parametrize("shell", ["zsh", "powershell"])
def test_zsh_and_powershell_are_answered(bare: Cli, monkeypatch: pytest.MonkeyPatch, shell: str):
    monkeypatch.setenv("_ASSAY_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "assay workflow li")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert bare().out.splitlines()[:2] == ["plain", "list"]


def test_fish_keeps_commas(bare: Cli):
    assert 'string split -m 1 ","' in bare("completion", "fish").out
