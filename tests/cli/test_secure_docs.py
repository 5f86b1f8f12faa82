"""What docs/howto/secure.md shows works: flags of `assay serve` fit together, and keys are made as shown."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from assay.cli.serve import _config, serve
from tests.api.support import serving
from tests.certificates import write_certificate
from tests.cli.support import SECONDS, plain_environment
from tests.docs.pages import sections

PAGE = "docs/howto/secure.md"
LINES = [line for section in sections(PAGE) for line in section.session]
SERVING = [line for line in LINES if line.startswith("assay serve") and "--generate-api-key" not in line]
OWN = {"port", "host", "backend", "no_auth", "read_only", "no_migrate"}


@pytest.mark.parametrize("line", SERVING)
def test_flags_fit_together(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_certificate(tmp_path)
    with serve.make_context("serve", shlex.split(line)[2:]) as context:
        flags = {name: value for name, value in context.params.items() if name not in OWN}
        config = _config({"host": context.params["host"]}, flags, context)
    assert config.auth.is_on


def test_an_audience_is_always_shown():
    assert all("--auth-audience" in line for line in SERVING if "--auth-issuer" in line)


def test_keys_are_made_as_shown(tmp_path: Path):
    shown = [line for line in LINES if line not in SERVING]
    assert len(shown) == 4
    shell = plain_environment(tmp_path, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    backend = f"sqlite://{tmp_path}/assay-workflow.db"

    def run(*lines: str, **environment: str) -> str:
        script = "\n".join(["set -euo pipefail", *lines])
        done = subprocess.run(  # noqa: S603
            ["bash", "-c", script],  # noqa: S607
            cwd=tmp_path,
            env={**shell, **environment},
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(*shown[:2], DATABASE_URL=backend)
    with serving(tmp_path, "--auth-api-key") as server:
        out = run(*shown[2:], ASSAY_ENGINE_URL=f"http://127.0.0.1:{server.port}")
    assert "generated" in out
    assert '"ci"' in out
