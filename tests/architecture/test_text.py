"""What is written stands alone: no path of one machine, no package registry, no note to self."""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

README_LINES = 150
MACHINE_PATH = re.compile(r"(?<![\w.-])/(?:work|root|home/\w+|Users/\w+)/")
REGISTRY = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|yarnpkg\.com|crates\.io)\b|--(?:extra-)?index-url"
)
NOTE_TO_SELF = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
ADDRESS = re.compile(r"\w://|^-(?!r )", re.MULTILINE)


def found(pattern: re.Pattern[str], text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if pattern.search(line)]


def offences(pattern: re.Pattern[str], folder: str = "") -> dict[str, list[str]]:
    inside = {path: text for path, text in texts().items() if path.startswith(folder)}
    return {path: lines for path, text in inside.items() if (lines := found(pattern, text))}


@cache
def texts() -> dict[str, str]:
    """Every text file by its path from the root; what .gitignore names is no part of the repository."""
    patterns = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    ignored = [".git", *(pattern for pattern in patterns if not pattern.startswith("#"))]
    read = ((path.relative_to(ROOT).as_posix(), _text(path)) for path in _files(ROOT, ignored))
    return {path: text for path, text in read if text is not None}


def _files(folder: Path, ignored: list[str]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        names = (path.name, path.relative_to(ROOT).as_posix())
        if any(fnmatch(name, pattern.strip("/")) for name in names for pattern in ignored):
            continue
        if path.is_dir():
            yield from _files(path, ignored)
        else:
            yield path


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, FileNotFoundError):  # a picture, or a file of a test that runs beside this one
        return None


def test_no_machine_path():
    assert offences(MACHINE_PATH) == {}


def test_no_registry():
    assert offences(REGISTRY) == {}


def test_pins_name_no_address_and_no_option():
    assert offences(ADDRESS, "requirements/") == {}


def test_no_note_to_self_in_the_source():
    assert offences(NOTE_TO_SELF, "src/") == {}


def test_the_readme_is_short():
    assert len(texts().get("README.md", "").splitlines()) <= README_LINES


@pytest.mark.parametrize("path", ["work", "root", "home/ada", "Users/ada"])
def test_a_machine_path_is_found(path: str):
    assert found(MACHINE_PATH, f"see /{path}/main")
    assert found(MACHINE_PATH, f"sqlite:///{path}/app.db")
    assert found(MACHINE_PATH, f"POST /api/v1/{path}/items") == []


def test_a_registry_is_found():
    assert found(REGISTRY, "https://files." + "pythonhosted" + ".org/packages")
    assert found(REGISTRY, "--index" + "-url somewhere")
    assert found(REGISTRY, "https://www.python.org") == []


def test_an_address_among_the_pins_is_found():
    assert found(ADDRESS, "click @ https://example.org/click.whl")
    assert found(ADDRESS, "--find-links wheels")
    assert found(ADDRESS, "click==8.5.1 \\\n    --hash=sha256:00") == []


def test_a_note_to_self_is_found():
    assert found(NOTE_TO_SELF, "# TODO later")
    assert found(NOTE_TO_SELF, "todos = []") == []
