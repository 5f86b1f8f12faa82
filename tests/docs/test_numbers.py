"""Every number that a comment cites is explained in the documentation."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

NUMBERS = "numbers.md"
CITED = re.compile(r"\b[CDFILRSU]\d{1,2}\b")
CONTROL_CHARACTERS = {"C0", "C1"}
GROUP = re.compile(r"\(([^()]*)\)")
SECTION = re.compile(r"(?:(wire|reliability|capabilities) )?([1-7]\.\d)")


def remarks(file: Path) -> Iterator[str]:
    """The comments and docstrings of a program, or all of another file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        yield text
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield token.string


def citations(text: str) -> set[str]:
    return set(CITED.findall(text)) - CONTROL_CHARACTERS | set(sections(text))


def sections(text: str) -> Iterator[str]:
    """Those in brackets that hold nothing but citations; `wire` counts for what follows, too."""
    for group in GROUP.findall(text):
        book = ""
        for item in group.split(", "):
            found = SECTION.fullmatch(item)
            if found is None and CITED.match(item) is None:
                break
            if found is not None:
                book = found[1] or book
                yield found[2] if book in ("", "reliability") else f"{book} {found[2]}"


def explained() -> set[str]:
    found = set(re.findall(r"^\| ([IL]\d+) \|", page("explanation/invariants.md"), re.MULTILINE))
    found |= set(re.findall(r"\*\*(R\d+) ", page("explanation/decisions.md")))
    for row in re.findall(r"^\| ([^|]+) \|", page(NUMBERS), re.MULTILINE):
        found |= _row(row)
    return found


def _row(row: str) -> set[str]:
    kind = next((word for word in ("wire ", "capabilities ") if row.startswith(word)), "")
    if " to " in row:
        first, last = (int(word[1:]) for word in row.split(" to "))
        return {f"{row[0]}{number}" for number in range(first, last + 1)}
    return {kind + word for word in row.removeprefix(kind).split(", ")}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_every_cited_number_is_explained():
    files = [file for folder in ("src", "tests") for kind in ("*.py", "*.sql") for file in (ROOT / folder).rglob(kind)]
    known = explained()
    unexplained = {
        f"{file.relative_to(ROOT)}: {cited}"
        for file in files
        for text in remarks(file)
        for cited in citations(text)
        if cited not in known
    }
    assert sorted(unexplained) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("what must hold (I4, 4.8)", {"I4", "4.8"}),
        ("as workers expect (wire 1.5).", {"wire 1.5"}),
        ("a world of its own (reliability 3.3)", {"3.3"}),
        ("with S4 and R40", {"S4", "R40"}),
        ("C0, DEL and C1; Python 3.12; (0.5, 2.0)", set()),
    ],
)
def test_a_citation_is_found(text: str, wanted: set[str]):
    assert citations(text) == wanted
