"""The list of codes is held to the sources, and the page that shows it to the list."""

import ast
import re
from collections.abc import Iterator

import pytest

import assay.api.app
import assay.server.connection
from assay.core.model.errors import AssayError, Failure, Kind
from assay.wire.codes import ErrorCode
from assay.wire.errors import STATUS_BY_CODE, STATUS_BY_KIND, status_of
from tests.architecture.source import Module, called_name, source_modules
from tests.docs.pages import ROOT

assert assay.api.app, assay.server.connection  # imported for the errors that they and theirs define

ANSWERING = ("core.", "wire.", "auth.", "engine.", "api.", "storage.ports", "server.connection")
"""Who has a say in answers. What else `server` and `storage` refuse is to begin."""

NOT_SENT = {
    "error": "the root of all errors",
    "activity_failed": "how an activity ended is data",
    "child_failed": "how a child ended is data",
    "linked_failure": "raised where the code runs",
    "workflow_failed": "how a run ended is data",
    "workflow_cancelled": "how a run ended is data",
    "workflow_terminated": "how a run ended is data",
    "workflow_timed_out": "how a run ended is data",
    "non_determinism": "found where the code runs",
    "channel_closed": "raised where the code runs",
    "unsupported_version": "raised where the code runs",
    "runaway": "raised where the code runs",
    "bad_environment": "refuses the start of the engine",
    "not_ready": "told to the dispatcher, which looks for other work",
}
ROW = re.compile(r"^\| (\d{3}) \| `(\w+)` \| (.+) \|$", re.MULTILINE)


def answering() -> list[Module]:
    return [module for module in source_modules() if module.inner_name.startswith(ANSWERING)]


def classes(above: type[AssayError] = AssayError) -> Iterator[type[AssayError]]:
    yield above
    for below in above.__subclasses__():
        yield from classes(below)


def raised() -> set[tuple[str, Kind]]:
    """The codes that the sources name, each with the kind of the error that has it."""
    names = {"assay"} | {module.name for module in answering()}  # public errors have the name of the package
    known = {kind.__name__: kind for kind in classes() if kind.__module__ in names and kind.__name__[0] != "_"}
    found = {(kind.code, kind("").kind if issubclass(kind, Failure) else kind.kind) for kind in known.values()}
    calls = [node for module in answering() for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    for call in calls:
        for keyword in call.keywords:
            if keyword.arg == "code" and isinstance(keyword.value, ast.Constant) and called_name(call) in known:
                found.add((str(keyword.value.value), known[called_name(call)].kind))
    return found


def texts() -> set[str]:
    """All texts in the sources but for the list itself."""
    trees = [module.tree for module in answering() if module.inner_name != "wire.codes"]
    return {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def status(code: ErrorCode) -> int:
    return status_of(AssayError("", code=code, kind=code.kind))


RETIRED = {"not_failed", "no_failed_activity"}
"""Codes that earlier versions sent, and that clients may still look for."""


def test_every_code_of_the_sources_is_listed_with_its_kind():
    listed = {(code.value, code.kind) for code in ErrorCode}
    assert {(code, kind) for code, kind in raised() if code not in NOT_SENT} - listed == set()


def test_every_listed_code_is_of_the_sources():
    assert {code.value for code in ErrorCode} - texts() == RETIRED
    assert NOT_SENT.keys() - {code for code, _ in raised()} == set()
    assert NOT_SENT.keys() & set(ErrorCode) == set()


def test_every_status_is_of_a_listed_code():
    assert STATUS_BY_CODE.keys() - set(ErrorCode) == set()


@pytest.mark.parametrize("code", ErrorCode)
def test_a_code_is_named_after_itself_and_has_a_sentence(code: ErrorCode):
    assert code.name == code.value.upper()
    assert code.kind in STATUS_BY_KIND
    assert code.meaning.endswith(".")


def test_the_list_goes_by_status():
    assert list(ErrorCode) == sorted(ErrorCode, key=status)


def test_the_page_shows_the_list():
    page = (ROOT / "docs/howto/server.md").read_text(encoding="utf-8")
    assert ROW.findall(page) == [(str(status(code)), code.value, code.meaning) for code in ErrorCode]
    assert [kind for kind in Kind if f"`{kind.value}`" not in page] == []
