"""The central property (I19): code that receives the same inputs sends the same commands, live, in batches, and on a
replay from every point of its history, whatever the order of arrival and however often a run is evicted."""

import logging
import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

from tests.sdk.workflow.replay.courses import check
from tests.sdk.workflow.replay.programs import PROGRAMS, Program

EXAMPLES = 200


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Errors of tasks are logged in each of many replays."""
    logger = logging.getLogger("assay.workflow")
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(logging.NOTSET)


@seed(20240611)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(PROGRAMS, st.integers(0, 2**32))
def test_the_same_inputs_give_the_same_commands(program: Program, chance: int) -> None:
    check(program, random.Random(chance), note)  # noqa: S311  # repeatable on purpose
