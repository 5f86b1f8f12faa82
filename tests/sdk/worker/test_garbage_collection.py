import gc
from collections.abc import Iterator

import pytest

from assay.core.model.limits import COLLECTOR_THRESHOLDS
from assay.sdk.garbage_collection import collect_less_often


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_a_program_that_has_chosen_nothing_collects_less_often() -> None:
    gc.set_threshold(700, 10, 10)
    collect_less_often()
    assert gc.get_threshold() == COLLECTOR_THRESHOLDS


@pytest.mark.parametrize("chosen", [(50_000, 5, 5), (0, 10, 10)])
def test_what_a_program_has_chosen_stays(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    collect_less_often()
    assert gc.get_threshold() == chosen
