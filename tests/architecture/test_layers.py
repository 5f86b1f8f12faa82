"""Imports go one way: who may import what, as data, and nothing else."""

import sys
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.source import PACKAGE, Module, modules_of_tests, source_modules, within

# Each part of the package and what it may import beside itself. "" is `assay/__init__.py`; the version is free to all.
ALLOWED = {
    "core": [],
    "worker_protocol": ["core"],
    "wire": ["core"],
    "storage": ["core"],
    "auth": ["core"],
    "engine": [
        "storage.ports",
        "storage.overview",
        "storage.failure_ports",
        "storage.batch_ports",
        "storage.audit_trail",
        "core",
    ],
    "api": ["engine", "auth", "worker_protocol", "wire", "core"],
    "sdk": ["worker_protocol", "wire", "core"],
    "embedded": ["engine", "storage", "sdk", "worker_protocol", "wire", "core"],
    "server": ["api", "auth", "engine", "storage", "worker_protocol", "wire", "core"],
    "testing": ["", "workflow", "sdk", "worker_protocol", "wire", "core"],
    "cli": ["", "workflow", "server", "embedded", "testing.replay", "testing.histories", "sdk", "wire", "core"],
    "workflow": ["embedded", "sdk", "worker_protocol", "wire", "core"],
    "": ["workflow", "embedded", "sdk", "worker_protocol", "wire", "core"],
    "__main__": ["cli"],
    "_version": [],
}

# A database is chosen at the edge, so that the engine runs on either.
DATABASES = ["storage.sqlite", "storage.postgres"]
MAY_NAME_A_DATABASE = ["server", "embedded"]

# A driver's types and errors stop at the store.
DRIVERS = ["apsw", "asyncpg", "sqlite3"]
MAY_NAME_A_DRIVER = ["storage"]

# All that the pure core may import from outside: nothing here reads a clock, a file, a socket or a random number.
# Pure and missing? Add it. `zoneinfo` reads the time zone rules, which the arithmetic of schedules cannot do without.
# fmt: skip keeps the list a paragraph instead of forty lines.
CORE_MAY_IMPORT = [
    "__future__", "abc", "base64", "binascii", "bisect", "calendar", "collections", "contextlib", "copy",
    "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json",
    "math", "msgspec", "numbers", "operator", "re", "string", "struct", "textwrap", "types", "typing",
    "typing_extensions", "unicodedata", "uuid", "zlib", "zoneinfo",
]  # fmt: skip

# Both ends of the worker protocol do no I/O: drivers move the bytes, wait, and read the store.
PROTOCOL_MAY_IMPORT = [*CORE_MAY_IMPORT, "hmac", "logging", "os", "websockets"]


def violations(modules: Iterable[Module]) -> list[str]:
    return [
        f"{module.name}:{line} imports {target}: {reason}"
        for module in modules
        for line, target in module.imports()
        for reason in _objections(module, target)
    ]


def _objections(module: Module, target: str) -> Iterator[str]:
    importer = module.inner_name
    part = importer.partition(".")[0]
    if within(target, PACKAGE):
        yield from _inner_objections(part, importer, target.removeprefix(PACKAGE).removeprefix("."))
        return
    if part == "core" and target.partition(".")[0] not in CORE_MAY_IMPORT:
        yield "core stays pure, see CORE_MAY_IMPORT"
    if part == "worker_protocol" and target.partition(".")[0] not in PROTOCOL_MAY_IMPORT:
        yield "the worker protocol does no I/O, see PROTOCOL_MAY_IMPORT"
    if any(within(target, driver) for driver in DRIVERS) and part not in MAY_NAME_A_DRIVER:
        yield f"drivers are for {', '.join(MAY_NAME_A_DRIVER)}"


def _inner_objections(part: str, importer: str, target: str) -> Iterator[str]:
    if not any(_reaches(target, allowed) for allowed in [part, "_version", *ALLOWED.get(part, [])]):
        yield f"not among what {part or PACKAGE} may import, see ALLOWED"
    for database in DATABASES:
        own = within(importer, database)
        if within(target, database) and not own and part not in MAY_NAME_A_DATABASE:
            yield f"a database is named only in {', '.join(MAY_NAME_A_DATABASE)}"


def _reaches(target: str, allowed: str) -> bool:
    if allowed == "":  # the names users import, and no part that has a row of its own
        return target.partition(".")[0] not in ALLOWED.keys() - {""}
    return within(target, allowed)


def crossings_between_tests(modules: Iterable[Module]) -> list[str]:
    return [
        f"{module.name}:{line} imports {target}"
        for module in modules
        for line, target in module.imports()
        if target.startswith("tests.") and any(word.startswith("test_") for word in target.split("."))
    ]


def test_imports_follow_the_table():
    assert violations(source_modules()) == []


def test_every_part_has_a_row():
    parts = {module.inner_name.partition(".")[0] for module in source_modules()}
    assert parts <= ALLOWED.keys()


def test_the_table_has_no_circle():
    parts_below = {part: {allowed.partition(".")[0] for allowed in row} for part, row in ALLOWED.items()}
    while parts_below:
        lowest = [part for part, below in parts_below.items() if not below & parts_below.keys()]
        assert lowest, f"these parts import each other in a circle: {sorted(parts_below)}"
        parts_below = {part: below for part, below in parts_below.items() if part not in lowest}


def test_the_core_table_holds_known_modules():
    assert set(CORE_MAY_IMPORT) - sys.stdlib_module_names == {"msgspec", "typing_extensions"}


def test_no_test_imports_a_test():
    assert crossings_between_tests(modules_of_tests()) == []


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("assay.core.model.run", "import asyncio"),
        ("assay.worker_protocol.worker_side", "import asyncio"),
        ("assay.worker_protocol.messages", "from assay.wire import codes"),
        ("assay.core.model.run", "from os import path"),
        ("assay.core.model.run", "from assay import Client"),
        ("assay.core.rules.timers", "from assay.wire import request_bodies"),
        ("assay.wire.request_bodies", "from assay.engine import engine"),
        ("assay.storage.sqlite", "from assay.engine.clock import Clock"),
        ("assay.storage.sqlite", "import assay.storage.postgres"),
        ("assay.engine.commit", "from assay.storage import sqlite"),
        ("assay.engine.commit", "from assay.storage import Store"),
        ("assay.engine.commit", "import apsw"),
        ("assay.sdk.client.client", "def connect():\n    from assay.engine import engine"),
        ("assay.sdk.client.client", "import importlib\nimportlib.import_module('assay.embedded')"),
        ("assay.sdk.app", "from .. import engine"),
        ("assay.api.app", "from assay.storage.ports import Store"),
        ("assay.cli.main", "from assay.storage import sqlite"),
        ("assay.testing.environment", "from assay.cli.main import main"),
        ("assay.workflow", "from assay.engine import engine"),
    ],
)
def test_a_forbidden_import_is_found(importer: str, statement: str):
    assert violations([Module(importer, statement)])


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("assay.core.model.run", "from assay.core import events"),
        ("assay.core.model.run", "import msgspec"),
        ("assay.engine.commit", "from assay.storage.ports import Store"),
        ("assay.engine.commit", "from assay.storage import ports"),
        ("assay.storage.sqlite", "import apsw"),
        ("assay.storage.sqlite.rows", "from assay.storage.sqlite import pages"),
        ("assay.embedded.transport", "from assay.storage import sqlite"),
        ("assay.testing.environment", "from assay import Client"),
        ("assay.cli.main", "from assay._version import __version__"),
        ("assay", "from assay import workflow"),
    ],
)
def test_a_permitted_import_passes(importer: str, statement: str):
    assert violations([Module(importer, statement)]) == []


@pytest.mark.parametrize("statement", ["from tests.core.test_b import given", "from tests.core import test_b"])
def test_a_test_that_imports_a_test_is_found(statement: str):
    assert crossings_between_tests([Module("tests.core.test_a", statement)])
