"""Failures are logged once, in the process where they happen, with the user's part of the traceback."""

import logging
import traceback
from typing import Any

import pytest

from assay.core.model import requests as rq
from assay.core.model.errors import ActivityError
from assay.core.model.ids import SECOND
from assay.sdk.app import App
from assay.sdk.workflow.context import Context
from tests.sdk.worker.support import on_loop, serving

app = App()


tries: list[int] = []


@app.activity
def declined() -> str:
    tries.append(len(tries) + 1)
    if len(tries) < 3:
        raise ConnectionError(f"no answer {len(tries)}")
    return "paid"


@app.workflow
async def pays(ctx: Context) -> Any:
    return await ctx.execute_activity(declined, initial_interval_secs=0.001)


@app.workflow
async def steps(ctx: Context) -> Any:
    return await ctx.run("divide", lambda: 1 / 0, max_attempts=2, initial_interval_secs=0.001)


@app.workflow
async def unknown(ctx: Context) -> Any:
    try:
        await ctx.execute_activity("nobody", max_attempts=1)
    except ActivityError:
        return "left alone"


@app.workflow
async def raises(ctx: Context) -> Any:
    if await ctx.wait_for_signal("go"):
        raise ValueError("the code gave up")


def shown(record: logging.LogRecord) -> list[tuple[str, str]]:
    """The frames of a record's traceback: file and function."""
    assert record.exc_info is not None
    return [(frame.filename, frame.name) for frame in traceback.extract_tb(record.exc_info[2])]


@on_loop
async def test_an_attempt_that_fails_is_logged(caplog: pytest.LogCaptureFixture):
    tries.clear()
    async with serving(app) as (fake, _):
        run = fake.start("pays")
        for _ in range(2):
            await fake.until(lambda: run.activities and run.activities[1].not_before is not None)
            fake.world.now += SECOND
            fake.ask(rq.Elapse(run.run_id, "activity", 1))
        assert await fake.result() == "paid"
    assert [record.getMessage() for record in caplog.records] == [
        "activity declined failed (attempt 1): no answer 1",
        "activity declined failed (attempt 2): no answer 2",
    ]
    for record in caplog.records:
        assert (record.name, record.levelname) == ("assay.worker", "WARNING")
        assert (vars(record)["workflow_id"], vars(record)["run_id"]) == ("one", run.run_id)
        assert shown(record) == [(__file__, "declined")]


@on_loop
async def test_a_step_that_fails_is_logged_and_so_is_the_run_that_it_ends(caplog: pytest.LogCaptureFixture):
    async with serving(app) as (fake, _):
        fake.start("steps")
        await fake.closed()
    assert [record.getMessage() for record in caplog.records] == [
        "step divide failed (attempt 1): division by zero",
        "step divide failed (attempt 2): division by zero",
        "workflow steps failed: division by zero",
    ]
    assert [shown(record) for record in caplog.records] == [
        [(__file__, "<lambda>")],
        [(__file__, "<lambda>")],
        [(__file__, "steps")],
    ]


@on_loop
async def test_what_is_not_of_the_users_making_has_no_traceback(caplog: pytest.LogCaptureFixture):
    async with serving(app) as (fake, _):
        fake.start("unknown")
        assert await fake.result() == "left alone"
    (record,) = caplog.records
    assert record.getMessage() == "activity nobody failed (attempt 1): No handler registered for activity: nobody"
    assert record.exc_info is None


@on_loop
async def test_a_run_that_fails_is_logged_when_that_is_recorded(caplog: pytest.LogCaptureFixture):
    async with serving(app) as (fake, _):
        run = fake.start("raises")
        await fake.until(lambda: run.seen_seq > 0)
        fake.held = (rq.Advance,)
        fake.signal("go", True)
        await fake.held_request(rq.Advance)
        assert caplog.records == []
        fake.answer_next(lost=True)  # it is sent again
        await fake.held_request(rq.Advance)
        fake.signal("late")  # and refused, since there is news; the code runs anew, to the same end
        fake.answer_next()
        await fake.held_request(rq.Advance)
        assert caplog.records == []
        fake.held = ()
        fake.answer_next()
        await fake.closed()
        await fake.quiet()
    (record,) = caplog.records
    assert record.getMessage() == "workflow raises failed: the code gave up"
    assert (record.levelname, vars(record)["workflow_id"]) == ("WARNING", "one")
    assert shown(record) == [(__file__, "raises")]
