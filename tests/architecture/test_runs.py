"""Only rules and `fold` change a run: no module beside them assigns a field of `Run`."""

import ast
from collections.abc import Iterable, Iterator

import pytest

from assay.core.model.run import Run
from tests.architecture.source import Module, source_modules, within

FIELDS = frozenset(Run.__struct_fields__)
HOLDERS = ("core", "engine", "storage")
"""The parts of the package in which objects are runs."""
MAY_CHANGE = "core.rules.fold"
OTHER_OBJECTS = {"self", "decision", "error", "refusal"}
"""Objects with fields of the same names that are no runs."""


def assignments(modules: Iterable[Module]) -> list[str]:
    return [
        f"{module.name}:{target.lineno} assigns {ast.unparse(target)}"
        for module in modules
        if module.inner_name.partition(".")[0] in HOLDERS and not within(module.inner_name, MAY_CHANGE)
        for target in _targets(module.tree)
        if target.attr in FIELDS and _root(target) not in OTHER_OBJECTS
    ]


def _targets(tree: ast.Module) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node


def _root(target: ast.Attribute) -> str:
    """Return the name of the object whose field is assigned: `run` of `self.run.task`, `runs` of `runs[key].task`."""
    owner: ast.expr = target.value
    while isinstance(owner, ast.Subscript | ast.Call):
        owner = owner.value if isinstance(owner, ast.Subscript) else owner.func
    return owner.attr if isinstance(owner, ast.Attribute) else ast.unparse(owner)


def test_only_fold_assigns_fields_of_a_run():
    assert assignments(source_modules()) == []


@pytest.mark.parametrize(
    "statement",
    ["run.task = task", "fresh.memo, fresh.search = 1, 2", "decision.run.input = raw", "runs[key].status += 1"],
)
def test_an_assignment_is_found(statement: str):
    assert assignments([Module("assay.engine.commit.batch", statement)])


@pytest.mark.parametrize("statement", ["decision.task = task", "self.run = run", "stored.version = 2"])
def test_fields_of_other_objects_may_be_assigned(statement: str):
    assert assignments([Module("assay.engine.commit.batch", statement)]) == []
