"""What docs/reference/cli.md shows is run, in order, against an engine and a worker."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.support import serving
from tests.cli.help_texts import commands
from tests.cli.support import PROGRAM, SECONDS, plain_environment
from tests.docs.pages import ROOT, sections

PAGE = "docs/reference/cli.md"


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A shell as on the page: with an engine, and a worker that serves the page's program."""
    (program,) = [section.program for section in sections(PAGE) if section.program]
    (tmp_path / "worker.py").write_text(program, encoding="utf-8")
    with serving(tmp_path) as server:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        shell = plain_environment(tmp_path, PATH=path, ASSAY_ENGINE_URL=f"http://127.0.0.1:{server.port}")
        with subprocess.Popen([*PROGRAM, "run", "worker.py"], cwd=tmp_path, env=shell) as worker:  # noqa: S603
            yield shell
            worker.terminate()


@pytest.mark.timeout(240)  # some forty programs, one after the other
def test_every_command_works(environment: dict[str, str], tmp_path: Path):
    lines = [command for section in sections(PAGE) for command in section.commands]
    assert len(lines) > 30
    script = "\n".join(["set -euxo pipefail", *lines])
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", script],  # noqa: S607
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=6 * SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "deployed to staging, approved by alice" in done.stdout
    assert "\ndeployed\n" in done.stdout
    assert "\nexit code 1\n" in done.stdout


def test_every_command_and_option_is_on_the_page():
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    for path, command in commands():
        group, *rest = path.split()[1:] or [""]
        if group in ("serve", "run", "dev", "verify", ""):
            continue
        assert not rest or re.search(rf"\b{re.escape(rest[0])}\b", text), path
        options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
        assert [option for option in options if option not in text] == [], path
