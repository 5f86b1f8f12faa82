"""Each line is logged once, however often the code is replayed, and never for a refused turn."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from assay.sdk.workflow.context import Context
from tests.sdk.support import Trial


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def texts(self) -> list[str]:
        return [record.getMessage() for record in self.records]


@pytest.fixture
def lines() -> Iterator[Lines]:
    logger = logging.getLogger("assay.workflow.Order")
    handler = Lines()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


async def chatty(ctx: Context) -> Any:
    ctx.logger.info("begins %s", "now")
    try:
        await ctx.execute_activity("charge")
        ctx.logger.warning("charged", extra={"amount": 5})
        number = await ctx.side_effect("number", lambda: 7)
        ctx.logger.info("number %d", number)
        await ctx.execute_activity("ship")
        ctx.logger.debug("nobody asked")
    finally:
        ctx.logger.info("ends")


def test_replay_is_silent(lines: Lines):
    trial = Trial(chatty).lose().complete(1).lose().lose().complete(2)
    assert trial.closing is not None
    assert lines.texts == ["begins now", "charged", "number 7", "ends"]


def test_lines_say_which_run_they_are_about(lines: Lines):
    Trial(chatty).complete(1)
    record = lines.records[1]
    assert (record.workflow_id, record.run_id, record.amount) == ("order-1", "run-1", 5)  # type: ignore[attr-defined]
    assert (record.levelname, record.name) == ("WARNING", "assay.workflow.Order")


def test_lines_of_a_turn_in_doubt_are_held_until_it_is_accepted(lines: Lines):
    trial = Trial(chatty)
    held: list[list[str]] = []
    advance = trial._advance

    def watched(*args: Any) -> Any:
        held.append(list(lines.texts))
        return advance(*args)

    trial._advance = watched  # type: ignore[method-assign]
    trial.did(1)
    assert held == [["begins now"], ["begins now", "charged", "number 7"]]


def test_lines_of_a_turn_that_is_refused_are_written_when_it_happens_after_all(lines: Lines):
    trial = Trial(chatty).lease(1)
    assert trial.execution is not None
    with trial.together():
        trial.signal("in between")
        trial.did(1)
        assert lines.texts == ["begins now"]
    assert lines.texts == ["begins now", "charged", "number 7"]


def test_clean_up_of_a_run_that_leaves_its_worker_says_nothing(lines: Lines):
    trial = Trial(chatty)
    trial.crash()
    assert lines.texts == ["begins now"]


def test_an_exception_is_written_with_its_traceback(lines: Lines):
    async def workflow(ctx: Context) -> None:
        try:
            raise ValueError("broken")
        except ValueError:
            ctx.logger.exception("went wrong")

    Trial(workflow)
    assert lines.records[0].exc_info is not None
    assert lines.records[0].levelname == "ERROR"


def test_code_knows_whether_it_is_replayed():
    seen: list[bool] = []

    async def workflow(ctx: Context) -> None:
        seen.append(ctx.is_replaying())
        await ctx.sleep(1)
        seen.append(ctx.is_replaying())

    Trial(workflow).lose().fire(1)
    assert seen == [False, True, False]
