"""`Engine` is the only door to the engine: callers use its verbs and never reach through it into a part."""

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.source import Module, simulation_modules, source_modules, within

CALLERS = ("api", "embedded", "server", "testing")
"""Packages that hold an `Engine`; the command line holds only clients of one."""
ENGINE_NAMES = {"engine", "_engine", "running", "_running"}
"""Names, attributes and functions that stand for an `Engine`."""
DOORS = {"reads", "mail"}
"""The public attributes of `Engine` that are objects with verbs of their own."""
MOST_VERBS = 21


def trespasses(modules: Iterable[Module]) -> list[str]:
    """Return the places that use a private part of an engine, or reach through an attribute into another."""
    return [f"{module.name}:{line} {what}" for module in modules for line, what in _in_module(module)]


def _in_module(module: Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module.tree):
        match node:
            case ast.Attribute(value=holder, attr=part) if _is_engine(holder) and part.startswith("_"):
                yield node.lineno, f"engine.{part}"
            case ast.Attribute(value=ast.Attribute(value=holder, attr=part), attr=inner) if _is_engine(holder):
                if part not in DOORS:
                    yield node.lineno, f"engine.{part}.{inner}"


def _is_engine(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in ENGINE_NAMES
    return False


def public_names(module: Module, name: str) -> set[str]:
    """Return the methods and attributes of a class that do not begin with an underscore."""
    (found,) = (one for one in module.classes() if one.name == name)
    names = {node.name for node in ast.walk(found) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(found):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute, ctx=ast.Store()):
                names.add(attribute)
    return {one for one in names if not one.startswith("_")}


def _module(name: str) -> Module:
    (found,) = (module for module in source_modules() if module.inner_name == name)
    return found


def test_no_caller_reaches_through_the_engine():
    callers = [module for module in source_modules() if any(within(module.inner_name, one) for one in CALLERS)]
    assert trespasses(callers) == []


def test_the_simulation_uses_the_door_too():
    assert trespasses(simulation_modules()) == []


def test_the_engine_has_few_verbs():
    names = public_names(_module("engine.engine"), "Engine")
    assert {"start", "stop", "submit", *DOORS} <= names
    assert len(names) <= MOST_VERBS, sorted(names)


@pytest.mark.parametrize(
    "text",
    [
        "engine.committer.submit(request)",
        "self._engine.store.events(run_id)",
        "await backend.engine.scheduler.find(name)",
        "self._running().store.describe(name)",
        "committer = engine._committer",
        "running()._clock.now()",
    ],
)
def test_a_trespass_is_found(text: str):
    assert trespasses([Module("assay.api.routes", text)])


@pytest.mark.parametrize(
    "text",
    ["engine.submit(request)", "self._engine.reads.run(name)", "session.client.get(name)", "raise engine.stopped"],
)
def test_a_verb_passes(text: str):
    assert trespasses([Module("assay.api.routes", text)]) == []


def test_public_names_are_counted():
    text = "class Engine:\n def __init__(self):\n  self.a = self._b = 1\n def c(self): ...\n def _d(self): ..."
    assert public_names(Module("engine", text), "Engine") == {"a", "c"}
