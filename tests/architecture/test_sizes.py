"""Sizes only tighten: how long functions and files may be, and how wide the store port."""

import ast
from collections.abc import Iterable

from tests.architecture.source import (
    ROOT,
    FunctionNode,
    Module,
    modules_of_tests,
    simulation_modules,
    source_modules,
)

FUNCTION_LINES = 60
FUNCTION_LINES_P90 = 25
FILE_LINES = 500
TEST_FILE_LINES = 1000
STORE_PORT_METHODS = 25

# One `name lines` per row, for what is too long today. A row must match to the line, so it can only shrink and go.
EXCEPTIONS = ROOT / "tests/architecture/size_exceptions.txt"


def body_lines(function: FunctionNode) -> int:
    """Lines from the first statement to the last; the docstring does not count, so that nobody saves on it."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def function_lines(modules: Iterable[Module]) -> list[tuple[str, int]]:
    return [
        (f"{module.name}:{function.name}", body_lines(function))
        for module in modules
        for function in module.functions()
    ]


def oversize(modules: Iterable[Module]) -> set[str]:
    """Every function and file above its limit, written as a row of the exceptions."""
    modules = list(modules)
    functions = {f"{name} {lines}" for name, lines in function_lines(modules) if lines > FUNCTION_LINES}
    files = {f"{module.name} {module.lines}" for module in modules if module.lines > FILE_LINES}
    return functions | files


def percentile_90(sizes: Iterable[int]) -> int:
    ordered = sorted(sizes)
    return ordered[len(ordered) * 9 // 10] if ordered else 0


def widest_protocol(module: Module) -> int:
    protocols = [node for node in module.classes() if any("Protocol" in ast.unparse(parent) for parent in node.bases)]
    return max((sum(isinstance(item, FunctionNode) for item in node.body) for node in protocols), default=0)


def test_functions_and_files_keep_to_their_limits():
    exceptions = set(EXCEPTIONS.read_text(encoding="utf-8").splitlines())
    assert oversize([*source_modules(), *simulation_modules()]) == exceptions


def test_most_functions_are_short():
    assert percentile_90(lines for _, lines in function_lines(source_modules())) <= FUNCTION_LINES_P90


def test_test_files_stay_readable():
    assert [module.name for module in modules_of_tests() if module.lines > TEST_FILE_LINES] == []


def test_the_store_port_stays_narrow():
    ports = [module for module in source_modules() if module.name == "assay.storage.ports"]
    assert [widest_protocol(module) for module in ports if widest_protocol(module) > STORE_PORT_METHODS] == []


def test_what_is_too_long_is_found():
    function = Module("long", "def walk():\n    '''Go.'''\n" + "    step()\n" * (FUNCTION_LINES + 1))
    assert oversize([function]) == {f"long:walk {FUNCTION_LINES + 1}"}
    assert oversize([Module("file", "\n" * (FILE_LINES + 1))]) == {f"file {FILE_LINES + 1}"}
    assert percentile_90([1] * 9 + [26]) == 26


def test_a_wide_port_is_found():
    methods = "    def verb(self): ...\n" * (STORE_PORT_METHODS + 1)
    assert widest_protocol(Module("port", f"class Store(Protocol):\n{methods}")) == STORE_PORT_METHODS + 1
