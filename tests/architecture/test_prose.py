"""Docstrings and comments name their objects: words that point at nothing named are rare, and software does not talk.

The counts are of docstrings and comments, without text in backticks.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.architecture.source import ROOT, Module, source_modules

INDEFINITE = frozenset(
    [
        "it",
        "that",
        "those",
        "one",
        "what",
        "which",
        "who",
        "whoever",
        "whose",
        "such",
        "so",
        "there",
        "else",
        "none",
        "nobody",
        "somebody",
        "others",
    ]
)
PERSON = frozenset(
    [
        "told",
        "tell",
        "tells",
        "says",
        "say",
        "said",
        "hears",
        "hear",
        "heard",
        "knows",
        "know",
        "wants",
        "want",
        "asks",
        "ask",
        "asked",
        "hands",
        "welcome",
        "believes",
        "believe",
        "sits",
        "sit",
        "born",
        "promised",
        "promise",
    ]
)
MOST_INDEFINITE = 0.05
MOST_PERSON = 0.005
LEAST_WORDS = 400
"""Smaller packages are too small for a share."""
CITATION = re.compile(r"\((?:[A-Z]\d+|\d\.\d+)[^)]*\)")
INVARIANT = re.compile(r"\(I\d+(?:, I\d+)*\)")
EXPLAINED = re.compile(r"^\| (I\d+) \|", re.MULTILINE)


def prose(module: Module) -> Iterator[str]:
    """Yield the docstrings and comments of a module."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield docstring
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT and "noqa" not in token.string and "type:" not in token.string:
            yield token.string.lstrip("# ")


def words(text: str) -> list[str]:
    plain = re.sub(r"\bNone\b", " ", re.sub(r"`[^`]*`", " ", text))
    return re.findall(r"[a-z']+", plain.lower())


def shares(module_texts: Iterator[str]) -> tuple[int, float, float]:
    """Return the number of words, and the shares of indefinite words and of words of persons."""
    counted = Counter(word for text in module_texts for word in words(text))
    total = sum(counted.values())
    indefinite = sum(counted[word] for word in INDEFINITE)
    person = sum(counted[word] for word in PERSON)
    return total, indefinite / max(total, 1), person / max(total, 1)


PACKAGES = sorted({module.inner_name.partition(".")[0] for module in source_modules()})


@pytest.mark.parametrize("package", PACKAGES)
def test_words_point_at_named_things(package: str):
    modules = [module for module in source_modules() if module.inner_name.partition(".")[0] == package]
    total, indefinite, person = shares(text for module in modules for text in prose(module))
    if total >= LEAST_WORDS:
        assert indefinite <= MOST_INDEFINITE
        assert person <= MOST_PERSON


def test_only_invariants_are_cited_by_number():
    explained = set(EXPLAINED.findall((ROOT / "docs/explanation/invariants.md").read_text(encoding="utf-8")))
    strange = [
        f"{module.name}: {citation}"
        for module in source_modules()
        for text in prose(module)
        for citation in CITATION.findall(text)
        if not INVARIANT.fullmatch(citation) or not set(re.findall(r"I\d+", citation)) <= explained
    ]
    assert strange == []


def test_crowded_sentences_are_counted():
    total, indefinite, person = shares(iter(["What it wants is told to those who ask.", "`it` and None"]))
    assert total == 10
    assert indefinite == pytest.approx(0.4)
    assert person == pytest.approx(0.3)
