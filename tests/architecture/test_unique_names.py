"""A name means one thing: module names repeat rarely, and a public class has its name for itself."""

from collections import defaultdict
from collections.abc import Iterable

from tests.architecture.source import Module, source_modules

MOST_MODULES_OF_A_NAME = 3
NAMES_ARE_DATA = (
    "core.model.events",
    "core.model.commands",
    "wire.request_bodies",
    "wire.responses",
    "worker_protocol.messages",
)
"""Modules whose class names are recorded, or are names of components of the API's description."""


def repeated_modules(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Return the modules of names that too many modules have."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        if not module.is_package:
            found[module.name.rpartition(".")[2]].append(module.inner_name)
    return {name: places for name, places in found.items() if len(places) > MOST_MODULES_OF_A_NAME}


def repeated_classes(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Return the public classes of names that several classes have."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        if module.inner_name in NAMES_ARE_DATA:
            continue
        for node in module.tree.body:
            if getattr(node, "name", "_").startswith("_") or type(node).__name__ != "ClassDef":
                continue
            found[node.name].append(module.inner_name)  # type: ignore[attr-defined]
    return {name: places for name, places in found.items() if len(places) > 1}


def test_few_modules_share_a_name():
    assert repeated_modules(source_modules()) == {}


def test_public_classes_have_names_of_their_own():
    assert repeated_classes(source_modules()) == {}


def test_repeated_names_are_found():
    assert repeated_modules([Module(f"assay.p{number}.clock", "") for number in range(4)])
    assert repeated_classes([Module("assay.a", "class Clock: ..."), Module("assay.b", "class Clock: ...")])
    assert not repeated_classes([Module("assay.a", "class _Clock: ..."), Module("assay.b", "class _Clock: ...")])
