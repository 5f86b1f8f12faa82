"""F24: a small program of each kind ends as predicted, whichever call of the store fails, and in whichever way."""

import pytest

from assay.testing.simulation.every_call import FATES, every_call
from assay.testing.simulation.programs import KINDS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_any_call_of_the_store_may_fail(kind: str):
    tried = set()
    for fate, at, outcome in every_call(kind):
        assert outcome.violations == (), f"{kind}: call {at}, {fate}"
        tried.add(fate)
    assert tried == set(FATES)
