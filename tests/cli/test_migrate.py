"""`assay migrate` on files and servers, with and without engines that use them."""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.storage.sql import schema_versions
from assay.storage.sqlite.connections import create
from assay.storage.sqlite.writer import SqliteWriter
from tests.api.support import serving
from tests.cli.support import Cli, plain_environment, spawn
from tests.temporary_postgres import create_database, shared_postgres

NEWEST = schema_versions.known()[-1].version
ALL = ", ".join(str(step.version) for step in schema_versions.known())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.getbasetemp()
    with shared_postgres(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as dsn:
        yield dsn


def versions(file: Path) -> list[int]:
    with sqlite3.connect(file) as connection:
        return [version for (version,) in connection.execute("SELECT version FROM schema_versions ORDER BY version")]


@pytest.mark.parametrize("by", ["option", "variable", "default"])
def test_what_is_missing_is_applied_once(bare: Cli, here: Path, monkeypatch: pytest.MonkeyPatch, by: str):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    file = here / ("assay-workflow.db" if by == "default" else "w.db")
    if by == "variable":
        monkeypatch.setenv("DATABASE_URL", "sqlite://w.db?mode=rwc")
    line = ["migrate", "--backend", "sqlite://w.db"] if by == "option" else ["migrate"]
    assert bare(*line) == (0, f"{file} now has schema {NEWEST}; missing were {ALL}\n", "")
    assert versions(file) == [step.version for step in schema_versions.known()]
    assert bare(*line) == (0, f"{file} has schema {NEWEST}; nothing was missing\n", "")


def test_a_file_of_an_older_version_is_copied_first(bare: Cli, here: Path):
    file = here / "old.db"
    create(file)
    writer = SqliteWriter(file)
    writer.migrate(schema_versions.known()[:-1], 1, allowed=True)
    writer.close()
    assert bare("migrate", "--backend", "old.db").out == f"{file} now has schema {NEWEST}; missing were {NEWEST}\n"
    assert versions(here / f"old.db.bak-{NEWEST - 1}") == [step.version for step in schema_versions.known()[:-1]]


def test_a_file_in_use_is_left_alone(bare: Cli, here: Path):
    with serving(here, "--backend", "sqlite://w.db") as engine:
        result = bare("migrate", "--backend", "w.db")
        assert (result.code, result.out) == (1, "")
        process = f"process {engine.process.pid} on "
        assert result.err.startswith(f"assay: stop the engine first: {here}/w.db is in use by {process}")


def test_who_migrates_by_hand_serves_without(here: Path, tmp_path: Path):
    environment = plain_environment(tmp_path)
    environment.pop("DATABASE_URL", None)
    refused = spawn(["serve", "--no-migrate", "--port", "0"], environment)
    assert refused.code == 1
    assert f"lacks schema {NEWEST}: run `assay migrate`" in refused.err
    assert list(here.iterdir()) == []
    assert spawn(["migrate"], environment).code == 0
    with serving(here, "--no-migrate") as engine:
        assert engine.http().get("/health").status == 200


def test_a_server_is_migrated_too(bare: Cli, server: str):
    url = asyncio.run(create_database(server))
    assert bare("migrate", "--backend", url).out.endswith(f" now has schema {NEWEST}; missing were {ALL}\n")
    assert bare("migrate", "--backend", url).out.endswith(f" has schema {NEWEST}; nothing was missing\n")


@pytest.mark.parametrize("url", ["mysql://x", "no/such/folder/w.db", "postgres://u:hidden@127.0.0.1:1/none"])
def test_mistakes_are_sentences(bare: Cli, here: Path, url: str):
    result = bare("migrate", "--backend", url)
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "hidden" not in result.err
