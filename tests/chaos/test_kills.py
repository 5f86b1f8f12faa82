from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import report
from tests.chaos.lives import Scenario
from tests.temporary_postgres import temporary_postgres

KILLS, WORKFLOWS, SEED = 6, 150, 1
PATIENCE = 60.0


@pytest.fixture
def postgres() -> Iterator[str]:
    with temporary_postgres() as dsn:
        yield dsn


def check(scenario: Scenario) -> None:
    found = report.run(scenario)
    assert found.sentences() == [], found.line()
    assert found.facts["kills"] == KILLS
    assert found.facts["acked"] > WORKFLOWS
    assert found.facts["runs"] > WORKFLOWS


def test_nothing_is_lost_when_the_process_is_killed_on_sqlite(tmp_path: Path):
    check(Scenario("sqlite", f"sqlite://{tmp_path}/chaos.db", tmp_path, KILLS, WORKFLOWS, SEED, 1, PATIENCE))


def test_nothing_is_lost_when_either_of_two_processes_is_killed_on_postgres(tmp_path: Path, postgres: str):
    check(Scenario("postgres", postgres, tmp_path, KILLS, WORKFLOWS, SEED, 2, PATIENCE))
