"""What is kept only for a while goes, and nothing else; on both databases."""

from assay.core.schedules.model import Fire, FireOutcome
from assay.storage.ports import Changes, RequestOutcome
from assay.storage.sql.leftovers import SqlLeftovers
from tests.core.schedules.schedule_support import HOUR, MIDNIGHT, MINUTE
from tests.core.support import MAIN, started, terminates
from tests.storage.support import AnyStore, StoredWorld, at


async def keep(store: AnyStore, *answers: tuple[str, str, float]) -> None:
    """Answers by namespace and key, each given so many seconds after `NOW`."""
    kept = [RequestOutcome(namespace, key, b"f", 200, b"", at(second)) for namespace, key, second in answers]
    await store.write(Changes(outcomes=[(None, outcome) for outcome in kept]))


async def kept(store: AnyStore, *keys: str, namespace: str = "main") -> list[str]:
    return sorted(outcome.key for outcome in await store.outcomes([(namespace, key) for key in keys]))


async def test_answers_are_forgotten_oldest_first_and_page_by_page(store: AnyStore):
    leftovers = SqlLeftovers(store)
    await keep(store, ("main", "a", 1), ("other", "a", 2), ("main", "b", 3), ("main", "c", 4))
    assert await leftovers.forget_outcomes(at(4), 2) == 2
    assert await kept(store, "a", "b", "c") == ["b", "c"]
    assert await kept(store, "a", namespace="other") == []
    assert await leftovers.forget_outcomes(at(4), 2) == 1
    assert await kept(store, "a", "b", "c") == ["c"]
    assert await leftovers.forget_outcomes(at(4), 2) == 0


async def test_an_answer_lives_as_long_as_the_run_it_may_be_about(store: AnyStore):
    leftovers = SqlLeftovers(store)
    world = StoredWorld(store)
    await keep(store, ("main", "before", -1), ("main", "of the run", 0), ("other", "elsewhere", 0))
    await world.do(started("long"))
    assert await leftovers.forget_outcomes(at(100), 10) == 2
    assert await kept(store, "before", "of the run") == ["of the run"]
    await world.do(terminates(of="long"))
    assert await leftovers.forget_outcomes(at(100), 10) == 1
    assert await kept(store, "of the run") == []


async def test_due_times_that_started_nothing_are_forgotten_and_those_of_runs_stay(store: AnyStore):
    def fire(minute: int, outcome: FireOutcome) -> Fire:
        due = MIDNIGHT + minute * MINUTE
        return Fire(MAIN, "nightly", due, due, outcome)

    outcomes = [FireOutcome.SKIPPED, FireOutcome.STARTED, FireOutcome.MISSED, FireOutcome.PAUSED, FireOutcome.SKIPPED]
    await store.write(Changes(fires=[fire(minute, outcome) for minute, outcome in enumerate(outcomes)]))
    leftovers = SqlLeftovers(store)
    assert await leftovers.forget_fires(MIDNIGHT + 4 * MINUTE, 2) == 2
    assert await leftovers.forget_fires(MIDNIGHT + 4 * MINUTE, 2) == 1
    assert await leftovers.forget_fires(MIDNIGHT + 4 * MINUTE, 2) == 0
    left = [fire.outcome for fire in await store.fires(MAIN, "nightly", 10)]
    assert left == [FireOutcome.SKIPPED, FireOutcome.STARTED]
    assert await leftovers.forget_fires(MIDNIGHT + HOUR, 10) == 1
