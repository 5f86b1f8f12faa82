"""Comments and pages cite no numbers but those of the invariants, which `docs/explanation/invariants.md` explains."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, pages

INVARIANTS = ROOT / "docs/explanation/invariants.md"
FOLDERS = ("tests", "simulation", "examples", "benchmarks")
CITED = re.compile(r"(?<![\w.%/-])(?:[CDFILRSU]|DB)\d{1,3}(?![\w-])")
SECTION = re.compile(  # a bound behind a measured figure, `2.4 x (2.5)`, is none
    r"(?<![\dx*] )\((?:\w+ )?[1-9]\.\d(?:, [^()]*)?\)|\b(?:wire|reliability|capabilities|design) (?:section )?\d"
)
NOT_CITED = re.compile(r"noqa: [A-Z]+\d+(?:, [A-Z]+\d+)*|`[^`]*`|\bC[01]\b")  # lint codes, code, control characters


def remarks(file: Path) -> Iterator[str]:
    """Yield the comments and docstrings of a Python file, or the whole text of another file without its code blocks."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        yield re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield token.string


def citations(text: str) -> set[str]:
    """Return the numbers that a text cites."""
    plain = NOT_CITED.sub("", text)
    return {*CITED.findall(plain), *SECTION.findall(plain)}


def explained() -> set[str]:
    """Return the numbers of the invariants."""
    return set(re.findall(r"^\| (I\d+) \|", INVARIANTS.read_text(encoding="utf-8"), re.MULTILINE))


def test_only_invariants_are_cited():
    files = [file for folder in FOLDERS for kind in ("*.py", "*.md") for file in (ROOT / folder).rglob(kind)]
    known = explained()
    found = {
        f"{file.relative_to(ROOT)}: {number}"
        for file in (*files, *pages())
        for text in remarks(file)
        for number in citations(text) - known
    }
    assert sorted(found) == []


def test_all_invariants_are_explained():
    assert explained() == {f"I{number}" for number in range(1, 27)}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("fenced by the epoch (I7)", {"I7"}),
        ("an error of the disk (4.8)", {"(4.8)"}),
        ("routes (wire 1.5), both of them", {"(wire 1.5)"}),
        ("with S4 and R40, DB3", {"S4", "R40", "DB3"}),
        ("C0, DEL and C1; Python 3.12; 2.4 x (2.5); `R2`  # noqa: S603, C901", set()),
    ],
)
def test_a_citation_is_found(text: str, wanted: set[str]):
    assert citations(text) == wanted
