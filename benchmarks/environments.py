"""The reference engines' own environments, made once under `.bench/`: they share nothing with the project's."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".bench"
PACKAGES = {
    "dbos": ("dbos",),
    "absurd": ("absurd-sdk", "absurdctl"),
    "restate": ("restate-sdk==1.2.0", "granian==2.8.7", "uvloop==0.23.0", "aiohttp==3.14.5"),
    "profiler": ("py-spy",),
}
NODE_PACKAGES = {"restate": "@restatedev/restate-server@1.7.12"}
"""What comes from npm: a program that is compiled for the machine, so that no node runs beside it."""


def environment(name: str) -> Path:
    """The folder with the programs of an environment, which is made if it is not there."""
    folder = HOME / name
    finished = folder / "finished"
    if not finished.exists():
        wanted = [*PACKAGES[name], *_node_packages(name)]
        print(f"setting up {folder.relative_to(ROOT)} ({', '.join(wanted)}) ...", flush=True)
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *PACKAGES[name])
        for package in _node_packages(name):
            _run(_npm(), "install", "--silent", "--no-save", "--ignore-scripts", "--prefix", str(folder), package)
        finished.touch()
    return folder / "bin"


def restate_server() -> Path:
    """The server's program; npm takes only the package that fits the machine."""
    folder = environment("restate").parent / "node_modules" / "@restatedev"
    (program,) = folder.glob("restate-server-*/bin/restate-server")
    return program


def versions(name: str) -> str:
    """What is installed there, for the record."""
    listed = _run(str(environment(name) / "pip"), "freeze", "--disable-pip-version-check")
    wanted = {re.split(r"[=\[]", package)[0].lower() for package in PACKAGES[name]}
    installed = [line for line in listed.splitlines() if line.partition("==")[0].lower() in wanted]
    return ", ".join([*_node_packages(name), *installed])


def _node_packages(name: str) -> list[str]:
    return [NODE_PACKAGES[name]] if name in NODE_PACKAGES else []


def _npm() -> str:
    found = shutil.which("npm")
    if found is None:
        raise SystemExit("npm is not here, and the server of Restate comes from it")
    return found


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)  # noqa: S603  # fixed commands
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
