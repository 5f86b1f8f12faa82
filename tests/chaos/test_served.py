"""Faults between processes that talk HTTP, in small; the sizes that are published run by `make chaos`."""

from pathlib import Path

from tests.chaos.report import Report
from tests.chaos.served import kills, lost_answers, pauses, zombies
from tests.chaos.served.holder import REPORTS
from tests.chaos.served.kills import Assault
from tests.chaos.served.lost_answers import Weather
from tests.chaos.served.pauses import Stops
from tests.chaos.served.zombies import LEASE, Night
from tests.http.proxy import Faults
from tests.temporary_postgres import temporary_postgres

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


def test_late_reports_of_zombies_change_nothing(tmp_path: Path):
    night = Night("sqlite", f"sqlite://{tmp_path}/chaos.db", tmp_path, zombies=2, asleep=1.2 * LEASE)
    found = clean(zombies.run(night))
    assert found.facts["refused_409"] >= 2 * (REPORTS + 2)


def test_lost_doubled_and_late_messages_have_their_effect_once(tmp_path: Path):
    faults = Faults(cut=0.1, duplicate=0.05, delay=0.05, shortest=0.05, longest=0.5)
    found = clean(lost_answers.run(Weather("sqlite", f"sqlite://{tmp_path}/chaos.db", tmp_path, 300, SEED, faults, 60)))
    assert found.facts["operations"] > 300
    assert min(found.facts[fault] for fault in ("cuts", "duplicates", "delays")) > 5


def test_an_engine_that_stood_still_takes_nothing_from_its_workers(tmp_path: Path):
    clean(pauses.run(Stops("sqlite", f"sqlite://{tmp_path}/chaos.db", tmp_path, 1)))


def test_an_engine_on_postgres_that_stood_still_takes_nothing_from_its_workers(tmp_path: Path):
    with temporary_postgres() as database:
        clean(pauses.run(Stops("postgres", database, tmp_path, 1)))
