"""Faults between processes that talk HTTP, in small; the sizes that are published run by `make chaos`."""

from pathlib import Path

from assay.testing.postgres import temporary_postgres
from tests.chaos.report import Report
from tests.chaos.served import kills
from tests.chaos.served.kills import Assault

SEED = 1


def clean(found: Report) -> Report:
    assert found.sentences() == [], found.line()
    return found


def test_nothing_is_lost_when_the_engine_is_killed_under_its_workers(tmp_path: Path):
    database = f"sqlite://{tmp_path}/chaos.db"
    found = clean(kills.run(Assault("engine", "sqlite", database, tmp_path, 4, 120, SEED, workers=2)))
    assert found.facts["kills"] == 4
    assert found.facts["acked"] > 120


def test_nothing_is_lost_when_workers_are_killed(tmp_path: Path):
    with temporary_postgres() as database:
        found = clean(kills.run(Assault("worker", "postgres", database, tmp_path, 4, 60, SEED)))
    assert found.facts["kills"] == 4
    assert found.facts["acked"] > 60
