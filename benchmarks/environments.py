"""The reference engines' own virtualenvs, made once under `.bench/`: they share nothing with the project's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".bench"
PACKAGES = {"dbos": ("dbos",), "absurd": ("absurd-sdk", "absurdctl"), "profiler": ("py-spy",)}


def environment(name: str) -> Path:
    """The folder with the programs of an environment, which is made if it is not there."""
    folder = HOME / name
    finished = folder / "finished"
    if not finished.exists():
        print(f"setting up {folder.relative_to(ROOT)} ({', '.join(PACKAGES[name])}) ...", flush=True)
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *PACKAGES[name])
        finished.touch()
    return folder / "bin"


def versions(name: str) -> str:
    """What is installed there, for the record."""
    said = _run(str(environment(name) / "pip"), "freeze", "--disable-pip-version-check")
    wanted = {package.lower() for package in PACKAGES[name]}
    return ", ".join(line for line in said.splitlines() if line.partition("==")[0].lower() in wanted)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)  # noqa: S603  # fixed commands
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
