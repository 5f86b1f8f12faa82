"""Deciding is pure: the core takes time, ids and chance as arguments, and does nothing but return a value."""

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.source import Module, called_name, source_modules, within

# The layers test lists what the core may import; these are named again because a pure function misses them most.
IMPURE_MODULES = ["asyncio", "logging", "os", "random", "secrets", "socket", "subprocess", "threading", "time"]
IMPURE_CALLS = {"exec", "eval", "input", "now", "open", "print", "today", "utcnow", "uuid1", "uuid4"}
SUSPENDING = (ast.AsyncFor, ast.AsyncFunctionDef, ast.AsyncWith, ast.Await)


def impurities(modules: Iterable[Module]) -> list[str]:
    return [f"{module.name}:{line} {what}" for module in modules for line, what in _in_module(module)]


def _in_module(module: Module) -> Iterator[tuple[int, str]]:
    yield from (
        (line, name) for line, name in module.imports() if any(within(name, impure) for impure in IMPURE_MODULES)
    )
    for node in ast.walk(module.tree):
        if isinstance(node, SUSPENDING):
            yield node.lineno, type(node).__name__
        elif isinstance(node, ast.Global):
            yield node.lineno, "changes a global"
        elif isinstance(node, ast.Call) and called_name(node) in IMPURE_CALLS:
            yield node.lineno, f"calls {called_name(node)}"


def test_the_core_is_pure():
    assert impurities(module for module in source_modules() if within(module.inner_name, "core")) == []


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from logging import getLogger",
        "def roll():\n    import random",
        "async def decide(): ...",
        "stamp = datetime.now(UTC)",
        "fresh = uuid.uuid4()",
        "def fold():\n    with open('history') as file: ...",
        "def count():\n    global total\n    total = 1",
    ],
)
def test_an_impurity_is_found(text: str):
    assert impurities([Module("assay.core.model.run", text)])


def test_arithmetic_passes():
    text = "import math\nfrom datetime import UTC, datetime\nwhen = datetime.fromtimestamp(math.floor(1.5), UTC)"
    assert impurities([Module("assay.core.schedules", text)]) == []
