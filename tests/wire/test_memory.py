import gc
from collections.abc import Iterator

import pytest

from assay.wire import memory

WIDE = (memory.OBJECTS, memory.ROUNDS, memory.ROUNDS)


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_a_program_that_has_chosen_nothing_collects_less_often() -> None:
    gc.set_threshold(700, 10, 10)
    memory.spare()
    assert gc.get_threshold() == WIDE


@pytest.mark.parametrize("chosen", [(50_000, 5, 5), (0, 10, 10)])
def test_what_a_program_has_chosen_stays(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    memory.spare()
    assert gc.get_threshold() == chosen
