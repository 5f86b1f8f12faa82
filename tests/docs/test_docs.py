"""What the documentation shows is run, and what it names exists."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Section, pages, sections

RUN = ("README.md", "docs/guide.md", "docs/schedules.md")
SECONDS = 60
PATHS = re.compile(
    r"`((?:src|tests|docs|examples|benchmarks|core|engine|storage|sdk|embedded|testing|server|cli|wire)/[\w./]+)`"
)
LINKS = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")
DECISION = re.compile(r"\bR(\d{1,2})\b")
INVARIANT = re.compile(r"\b([IL]\d{1,2})\b")

SECTIONS = [section for page in RUN for section in sections(page)]


def environment(folder: Path) -> dict[str, str]:
    """A shell like a reader's, with the commands of this installation first."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    return {
        **plain,
        "PATH": f"{Path(sys.executable).parent}:{plain['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
    }


def run(arguments: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603
        arguments,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("section", [one for one in SECTIONS if one.program or one.commands], ids=str)
def test_a_section_does_what_it_says(section: Section, tmp_path: Path):
    if section.program:
        (tmp_path / "app.py").write_text(section.program, encoding="utf-8")
        told = run([sys.executable, "-W", "error", "app.py"], tmp_path)
        assert (told.returncode, told.stderr) == (0, "")
        assert told.stdout == section.output
    for command in section.commands:
        check_command(command, tmp_path)


def check_command(command: str, folder: Path) -> None:
    """Run it; a target of make is only looked up, because `make test` is what runs this."""
    if command.startswith("make "):
        told = run([*command.split(), "--dry-run", "-C", str(ROOT)], folder)
    else:
        told = run(["sh", "-c", command], folder)
    assert told.returncode == 0, f"{command}: {told.stderr}"


def test_every_block_has_a_known_language():
    known = {"python", "text", "sh", ""}
    assert {language for section in SECTIONS for language, _ in section.blocks} <= known


def test_python_is_shown_in_the_style_of_the_sources(tmp_path: Path):
    for number, section in enumerate(SECTIONS):
        for block, text in enumerate(section.of("python")):
            (tmp_path / f"block_{number}_{block}.py").write_text(text, encoding="utf-8")
    told = run([sys.executable, "-m", "ruff", "format", "--check", "--line-length", "120", str(tmp_path)], ROOT)
    assert told.returncode == 0, told.stdout


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path):
    text = page.read_text(encoding="utf-8")
    places = (ROOT, ROOT / "src/assay")
    missing = [path for path in PATHS.findall(text) if not any((place / path).exists() for place in places)]
    assert missing == []
    assert [link for link in LINKS.findall(text) if not (page.parent / link).exists()] == []


def sources() -> str:
    folders = (ROOT / "src", ROOT / "tests")
    files = [file for folder in folders for kind in ("*.py", "*.sql") for file in folder.rglob(kind)]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def numbers_explained(page: str, pattern: str) -> set[str]:
    return set(re.findall(pattern, (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))


def test_every_decision_that_the_sources_cite_is_explained():
    cited = set(DECISION.findall(sources()))
    assert cited - numbers_explained("docs/decisions.md", r"^\* \*\*R(\d+)\b") == set()


def test_every_invariant_that_the_sources_cite_is_explained():
    cited = set(INVARIANT.findall(sources()))
    assert cited - numbers_explained("docs/invariants.md", r"^\| ([IL]\d+) \|") == set()
