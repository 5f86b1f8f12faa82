"""The explanations name files and functions of this tree: each of them exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

EXPLANATIONS = [ROOT / "docs/explanation" / name for name in ("a-request.md", "fast-paths.md")]
PLACE = re.compile(r"`([\w./-]+\.py)(?:: ([\w.]+))?`")
MENTION = re.compile(r"\.py\b")
FOLDERS = (ROOT, ROOT / "src/assay")


def names_in(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Yield the functions, classes, methods and assigned names of a module, methods as `Class.method`."""
    for statement in body:
        match statement:
            case ast.ClassDef():
                yield prefix + statement.name
                yield from names_in(statement.body, f"{prefix}{statement.name}.")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield prefix + statement.name
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                yield prefix + name
            case ast.If():
                yield from names_in([*statement.body, *statement.orelse], prefix)


def missing(text: str) -> list[str]:
    """Return the places in a text that do not exist, as `path` or `path: name`."""
    found = []
    for path, name in PLACE.findall(text):
        file = next((folder / path for folder in FOLDERS if (folder / path).is_file()), None)
        if file is None:
            found.append(path)
        elif name and name not in names_in(ast.parse(file.read_text(encoding="utf-8")).body):
            found.append(f"{path}: {name}")
    return found


@pytest.mark.parametrize("page", EXPLANATIONS, ids=lambda page: page.name)
def test_every_place_that_an_explanation_names_exists(page: Path):
    text = page.read_text(encoding="utf-8")
    assert PLACE.findall(text)
    assert missing(text) == []


@pytest.mark.parametrize("page", EXPLANATIONS, ids=lambda page: page.name)
def test_every_file_is_named_in_the_form_that_is_checked(page: Path):
    rest = PLACE.sub("", page.read_text(encoding="utf-8"))
    assert [line for line in rest.splitlines() if MENTION.search(line)] == []


def test_a_place_that_does_not_exist_is_found():
    real = "`core/rules/decide.py`, `core/rules/decide.py: decide`"
    text = f"{real}, `core/rules/decide.py: judge`, `core/guess.py: decide`, `wire/gone.py`"
    assert missing(text) == ["core/rules/decide.py: judge", "core/guess.py", "wire/gone.py"]
