"""Names are role nouns: no drawer for odds and ends, no class named after the fact that it does something."""

import re
from collections.abc import Iterable

import pytest

from tests.architecture.source import Module, modules_of_tests, simulation_modules, source_modules

DRAWERS = {"base", "common", "helper", "helpers", "misc", "util", "utils"}
EMPTY_ROLES = {"handler", "handlers", "manager", "processor"}


def bad_names(modules: Iterable[Module]) -> list[str]:
    return [name for module in modules for name in (*_bad_module(module), *_bad_classes(module))]


def _bad_module(module: Module) -> list[str]:
    own_words = re.split(r"[._]", module.name.lower())
    return [module.name] if DRAWERS & set(own_words) else []


def _bad_classes(module: Module) -> list[str]:
    return [f"{module.name}:{node.name}" for node in module.classes() if _last_word(node.name) in DRAWERS | EMPTY_ROLES]


def _last_word(name: str) -> str:
    return re.findall(r"[A-Z][a-z0-9]*|[a-z0-9]+", name)[-1].lower()


def test_modules_and_classes_are_named_for_their_role():
    assert bad_names([*source_modules(), *simulation_modules(), *modules_of_tests()]) == []


@pytest.mark.parametrize("name", ["assay.core.utils", "assay.engine.time_helpers", "assay.common.clock", "tests.misc"])
def test_a_drawer_is_found(name: str):
    assert bad_names([Module(name, "")]) == [name]


@pytest.mark.parametrize("name", ["RunManager", "HTTPHandler", "_TaskProcessor", "EventBase", "Helper", "utils"])
def test_an_empty_role_is_found(name: str):
    assert bad_names([Module("assay.core.model.run", f"class {name}: ...")])


@pytest.mark.parametrize("name", ["Dispatcher", "Database", "HandlerMissing", "Codebase"])
def test_a_role_noun_passes(name: str):
    assert bad_names([Module("assay.core.model.run", f"class {name}: ...")]) == []
