"""What the documentation shows is run, and what it names exists."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Section, pages, sections

RUN = (
    "README.md",
    "docs/howto/guide.md",
    "docs/howto/schedules.md",
    "docs/howto/children.md",
    "docs/howto/messages.md",
    "docs/howto/monitor-and-link.md",
    "docs/howto/version-running-workflows.md",
    "docs/howto/context-and-options.md",
    "docs/howto/concurrency.md",
    "docs/howto/timers.md",
    "docs/howto/sagas.md",
)
QUIET = Path(__file__).with_name("quiet")
SECONDS = 60
PATHS = re.compile(
    r"`((?:src|tests|docs|examples|benchmarks|simulation|core|engine|storage|sdk|embedded|testing|server|cli|wire|api|"
    r"auth|worker_protocol|archive)/[\w./]+)`"
)
LINKS = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")

SECTIONS = [section for page in RUN for section in sections(page)]


def environment(folder: Path) -> dict[str, str]:
    """A shell like a reader's, with the commands of this installation first."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    return {
        **plain,
        "PATH": f"{Path(sys.executable).parent}:{plain['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, (plain.get("PYTHONPATH"), str(ROOT), str(QUIET)))),
        "HOME": str(folder),
    }


def run(arguments: list[str], folder: Path, extra: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603
        arguments,
        cwd=folder,
        env={**environment(folder), **(extra or {})},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("section", [one for one in SECTIONS if one.program or one.commands], ids=str)
def test_a_section_does_what_it_says(section: Section, tmp_path: Path):
    if section.program:
        (tmp_path / "app.py").write_text(section.program, encoding="utf-8")
        done = run([sys.executable, "-W", "error", "app.py"], tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == section.output
    for command in section.commands:
        check_command(command, tmp_path)


def test_the_first_program_prints_the_same_when_it_is_started_again(tmp_path: Path):
    section = next(one for one in SECTIONS if one.page == "README.md" and one.program)
    (tmp_path / "app.py").write_text(section.program, encoding="utf-8")
    for _ in range(2):
        assert run([sys.executable, "-W", "error", "app.py"], tmp_path).stdout == section.output
    count = 'from assay import workflow; workflow.connect("sqlite://app.db"); print(len(workflow.list_runs("order-1")))'
    assert run([sys.executable, "-c", count], tmp_path).stdout == "1\n"


def check_installing(folder: Path) -> None:
    """Install a clone into an environment of its own; the dependencies and the builder are those of the tests."""
    done = run([sys.executable, "-m", "venv", "fresh"], folder)
    assert done.returncode == 0, done.stderr
    clone, commands = folder / "clone", folder / "fresh" / "bin"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(".*", "tests", "benchmarks", "simulation", "*.js"))
    installed = {"PYTHONPATH": sysconfig.get_path("purelib")}
    options = ["--no-deps", "--no-build-isolation", "--no-index"]
    done = run([str(commands / "python"), "-m", "pip", "install", ".", *options], clone, installed)
    assert done.returncode == 0, done.stderr
    assert "assay" in run([str(commands / "assay"), "--version"], folder, installed).stdout


def check_command(command: str, folder: Path) -> None:
    """Run it; a target of make is only looked up, because `make test` is what runs this."""
    if command == "python -m pip install .":
        check_installing(folder)
        return
    if command.startswith("make "):
        done = run([*command.split(), "--dry-run", "-C", str(ROOT)], folder)
    else:
        done = run(["sh", "-c", command], folder)
    assert done.returncode == 0, f"{command}: {done.stderr}"


@contextmanager
def staying(command: str, folder: Path, extra: dict[str, str]) -> Iterator[None]:
    """A program that runs until the session is over, and then ends well."""
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(  # noqa: S603
            shlex.split(command), cwd=folder, env={**environment(folder), **extra}, stdout=log, stderr=log
        )
    try:
        yield
        process.terminate()
        assert process.wait(SECONDS) == 0, (folder / "log").read_text()
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        found: int = trial.getsockname()[1]
        return found


@pytest.mark.parametrize("section", [one for one in SECTIONS if one.session], ids=str)
def test_a_session_does_what_it_says(section: Section, tmp_path: Path):
    """On a port of its own; `worker.py` is the program that the page has before, without lines that would run it."""
    program = next(one.program for one in sections(section.page) if one.program)
    loaded = program if "if __name__" in program else program.partition("workflow.connect(")[0]
    (tmp_path / "worker.py").write_text(loaded, encoding="utf-8")
    port = free_port()
    here = {"ASSAY_ENGINE_URL": f"http://127.0.0.1:{port}"}
    with ExitStack() as stack:
        for command in section.session:
            if command == "assay serve":
                stack.enter_context(staying(f"{command} --port {port}", tmp_path, here))
                reachable(port)
            elif command.startswith("assay run "):
                stack.enter_context(staying(command, tmp_path, here))
            else:
                done = run(shlex.split(command), tmp_path, here)
                assert done.returncode == 0, f"{command}: {done.stderr}"


def reachable(port: int) -> None:
    """Wait until somebody listens."""
    for _ in range(SECONDS * 20):
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.05)
    raise AssertionError("the engine does not listen")


def test_every_block_has_a_known_language():
    known = {"python", "text", "sh", "console", ""}
    assert {language for section in SECTIONS for language, _ in section.blocks} <= known


def test_python_is_shown_in_the_style_of_the_sources(tmp_path: Path):
    for number, section in enumerate(SECTIONS):
        for block, text in enumerate(section.of("python")):
            (tmp_path / f"block_{number}_{block}.py").write_text(text, encoding="utf-8")
    done = run([sys.executable, "-m", "ruff", "format", "--check", "--line-length", "120", str(tmp_path)], ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path):
    text = page.read_text(encoding="utf-8")
    places = (ROOT, ROOT / "src/assay")
    missing = [path for path in PATHS.findall(text) if not any((place / path).exists() for place in places)]
    assert missing == []
    assert [link for link in LINKS.findall(text) if not (page.parent / link).exists()] == []
