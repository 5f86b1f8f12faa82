"""Names that users import have docstrings a reference can be made of: arguments, results and errors in sections."""

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import assay
from assay import workflow

UNDOCUMENTED = {"self", "cls"}
NO_RESULT = {"None", "NoReturn", "Never", "typing.NoReturn", "<class 'inspect._empty'>"}


def public_functions() -> Iterator[tuple[str, Any]]:
    """Yield every function of `assay.workflow`, and every public method of the classes that `assay` exports."""
    for name in workflow.__all__:
        value = getattr(workflow, name)
        if inspect.isfunction(value):
            yield f"workflow.{name}", value
    for name in assay.__all__:
        value = getattr(assay, name)
        if inspect.isclass(value) and value.__module__.startswith("assay"):
            for method, member in vars(value).items():
                function = inspect.unwrap(getattr(member, "__func__", member))
                if not method.startswith("_") and inspect.isfunction(function):
                    yield f"{name}.{method}", function


FUNCTIONS = dict(public_functions())


def missing_sections(function: Any) -> list[str]:
    """Return the sections that a docstring lacks: `Args` for parameters, `Returns` for a result."""
    documentation = inspect.getdoc(function) or ""
    if documentation.startswith("See `"):
        return []
    signature = inspect.signature(function)
    lacking = []
    if set(signature.parameters) - UNDOCUMENTED and "Args:" not in documentation:
        lacking.append("Args")
    returns = str(signature.return_annotation)
    if returns not in NO_RESULT and "Returns:" not in documentation and not _yields(function):
        lacking.append("Returns")
    return lacking


def _yields(function: Any) -> bool:
    return "Yields:" in (inspect.getdoc(function) or "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_document_arguments_and_results(name: str):
    assert missing_sections(FUNCTIONS[name]) == []


def test_a_docstring_without_sections_is_found():
    namespace: dict[str, Any] = {}
    tree = ast.parse('def start(name: str) -> int:\n    """Start a run."""\n')
    exec(compile(tree, "<test>", "exec"), namespace)  # noqa: S102 - our own words
    assert missing_sections(namespace["start"]) == ["Args", "Returns"]
