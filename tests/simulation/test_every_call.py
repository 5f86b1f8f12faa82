"""A small program of each kind ends as predicted, whichever call of the store fails and in whichever way."""

import pytest

from simulation.every_call import FATES, every_call, failing
from simulation.programs import KINDS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_any_call_of_the_store_may_fail(kind: str):
    tried = set()
    for fate, at, outcome in every_call(kind):
        assert outcome.violations == (), f"{kind}: call {at}, {fate}"
        tried.add(fate)
    assert tried == set(FATES)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["inline", "act", "child"])
def test_any_commit_may_arrive_after_its_connection_was_lost(kind: str):
    _, calls = failing(kind, 0, "late", shared=True)
    for at in range(1, calls + 1):
        outcome, _ = failing(kind, at, "late", shared=True)
        assert outcome.violations == (), f"{kind}: call {at}"
