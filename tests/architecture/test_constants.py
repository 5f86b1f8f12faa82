"""A constant has one value, in one place: two meanings have two names, and a figure that is shared is imported."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module

import pytest

from tests.architecture.source import Module, source_modules

Constant = int | float | str


def clashes(modules: Iterable[Module]) -> list[str]:
    """Return the names that have two values, each with its values and where they stand."""
    found: dict[str, dict[Constant, list[str]]] = defaultdict(lambda: defaultdict(list))
    for module in modules:
        for name, value in _constants(module):
            found[name][value].append(module.name)
    return [f"{name}: {dict(values)}" for name, values in sorted(found.items()) if len(values) > 1]


def copies(modules: Iterable[Module]) -> list[str]:
    """Return the names that stand in two modules with one value, which is defined twice."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for name, _ in _constants(module):
            found[name].append(module.name)
    return [f"{name}: {places}" for name, places in sorted(found.items()) if len(places) > 1]


def _constants(module: Module) -> Iterator[tuple[str, Constant]]:
    values = _values(module)
    for node in module.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                value = values.get(name)
                if name.isupper() and isinstance(value, Constant) and not isinstance(value, bool):
                    yield name, value


def _values(module: Module) -> dict[str, object]:
    """Return what the names of a module stand for; a module of the package is imported, as constants are computed."""
    if module in source_modules():
        return vars(import_module(module.name))
    values: dict[str, object] = {}
    exec(compile(module.text, module.name, "exec"), values)  # noqa: S102  # the test's own text
    return values


def test_no_constant_has_two_values():
    assert clashes(source_modules()) == []


def test_no_constant_is_defined_twice():
    assert copies(source_modules()) == []


@pytest.mark.parametrize("text", ["PAGE = 2", "PAGE: int = 2", "_X = 1\nPAGE = _X + 1", "PAGE = 'a page'"])
def test_a_second_value_is_found(text: str):
    assert clashes([Module("a", "PAGE = 1"), Module("b", text)])


@pytest.mark.parametrize("text", ["PAGE = 1", "PAGE = (2,)", "page = 2", "def f():\n    PAGE = 2", "PAGES = 2"])
def test_what_is_no_second_value_passes(text: str):
    assert clashes([Module("a", "PAGE = 1"), Module("b", text)]) == []


def test_a_second_definition_is_found():
    assert copies([Module("a", "PAGE = 1"), Module("b", "PAGE = 1")])
    assert copies([Module("a", "PAGE = 1"), Module("b", "PAGES = 1")]) == []
