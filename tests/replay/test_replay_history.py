"""The tool by which users ask, before they deploy, whether their code still follows its histories."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.model import events as ev
from assay.core.model.errors import NonDeterminismError, NotFound
from assay.core.model.ids import Namespace, RunId, RunKey, WorkflowId
from assay.sdk.app import App
from assay.sdk.workflow.context import Context
from assay.testing.replay import History, fetch_history, load_history, replay_history
from tests.replay.programs import app
from tests.replay.record import HISTORIES
from tests.sdk.end_to_end import place, served
from tests.wire.shown import event_record

HELLO, SHOP, STEPS, OPEN = (HISTORIES / f"{name}.json" for name in ("hello", "shop", "steps", "still_open"))
EVENTS = [
    event_record(RunKey(Namespace("main"), WorkflowId("hello"), RunId("r")), recorded)
    for recorded in load_history(HELLO).recorded()
]


def difference(path: Path | History, workflow: Callable[..., Any]) -> NonDeterminismError:
    with pytest.raises(NonDeterminismError) as caught:
        replay_history(path, app, workflow=workflow)
    return caught.value


@pytest.mark.parametrize(
    "source",
    [HELLO, HELLO.read_bytes(), HELLO.read_text(), json.loads(HELLO.read_text()), load_history(HELLO), EVENTS],
    ids=["path", "bytes", "text", "dict", "history", "events"],
)
def test_a_history_may_come_as_it_likes(source: Any):
    replay_history(source, app)


def test_a_renamed_step_is_named():
    async def hello(ctx: Context, name: str) -> Any:
        return await ctx.execute_activity("whisper", name)

    error = difference(HELLO, hello)
    assert (error.step, error.expected, error.found) == ("activity 1", "activity 1 'shout'", "activity 1 'whisper'")


def test_a_removed_step_is_named():
    async def hello(ctx: Context, name: str) -> Any:
        return name

    assert difference(HELLO, hello).expected == "activity 1 'shout'"


def test_an_added_step_is_named():
    async def hello(ctx: Context, name: str) -> Any:
        await ctx.execute_activity("shout", name)
        return await ctx.execute_activity("whisper", name)

    error = difference(HELLO, hello)
    assert (error.expected, error.found) == ("WorkflowCompleted", "activity 2 'whisper'")


def test_another_end_is_named():
    async def hello(ctx: Context, name: str) -> Any:
        await ctx.execute_activity("shout", name)
        raise ValueError("no")

    assert (difference(HELLO, hello).expected, difference(HELLO, hello).found) == ("WorkflowCompleted", "FailWorkflow")

    async def waits(ctx: Context, name: str) -> Any:
        await ctx.execute_activity("shout", name)
        await asyncio.Event().wait()

    assert difference(HELLO, waits).found == "nothing more: it waits"


def test_code_that_catches_everything_is_found_out():
    async def hello(ctx: Context, name: str) -> Any:
        try:
            return await ctx.execute_activity("whisper", name)
        except Exception:  # noqa: BLE001  # that is the question
            return await ctx.execute_activity("shout", name)

    assert difference(HELLO, hello).found == "activity 1 'whisper'"


def test_code_may_be_ahead_of_an_open_history():
    replay_history(OPEN, app)
    history = load_history(OPEN)

    async def goes_on(ctx: Context) -> Any:
        await ctx.wait_for_signal("early")
        await ctx.execute_activity("echo", 1)
        await ctx.wait_for_signal("late")
        await ctx.wait_for_signal("late")
        await ctx.side_effect("never run", lambda: 1 / 0)

    replay_history(history, app, workflow=goes_on)


def test_nothing_is_done_and_nothing_is_said(caplog: pytest.LogCaptureFixture):
    ran: list[str] = []

    async def shop(ctx: Context, order: str) -> Any:
        ctx.logger.warning("here I am")
        shelf = await ctx.execute_activity("echo", "shelf 12")
        parcel = await ctx.side_effect("number parcel", lambda: ran.append("effect"))
        await ctx.execute_activity("echo", parcel)
        await ctx.side_effect("courier called", lambda: ran.append("effect"))
        await ctx.sleep(1.2)
        await ctx.side_effect("courier arrived", lambda: ran.append("effect"))
        await ctx.run("send receipt", lambda: ran.append("step"))
        return shelf

    with caplog.at_level(logging.DEBUG):
        replay_history(SHOP, app, workflow=shop)
        cut = load_history(SHOP)
        for length in range(1, len(cut.events)):
            replay_history(msgspec.structs.replace(cut, events=cut.events[:length]), app, workflow=shop)
    assert ran == []
    assert caplog.records == []


def test_a_type_that_nobody_knows_is_said_to_be_missing():
    with pytest.raises(NotFound, match="no workflow handler registered for type Hello"):
        replay_history(HELLO, App())


def test_code_that_never_waits_is_reported_and_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("assay.sdk.workflow.replay.loop.HANDLE_LIMIT", 2_000)

    async def spins(ctx: Context, name: str) -> None:
        while True:  # that is the point
            await asyncio.sleep(0)

    assert "without ever waiting" in str(difference(HELLO, spins))


def test_a_history_can_be_fetched_from_an_engine(tmp_path: Path):
    async def fetch() -> History:
        async with place(tmp_path, app) as here, here.worker():
            await here.run("Hello", "hello", "ada")
            with pytest.raises(NotFound):
                await fetch_history(here.client, "nobody")
            return await fetch_history(here.client, "hello")

    history = asyncio.run(fetch())
    assert (history.workflow_type, history.workflow_id) == ("Hello", "hello")
    assert [event.kind for event in history.events] == [
        "WorkflowStarted",
        "ActivityScheduled",
        "ActivityCompleted",
        "WorkflowCompleted",
    ]
    replay_history(history.dump(), app)


def packing(*towns: str, seconds: float = 5) -> Callable[..., Any]:
    """Code with a step, a child, an activity and a timer, whose inputs tests change."""

    async def pack(ctx: Context) -> None:
        for number, town in enumerate(towns):
            await ctx.run("weigh", len, town)
            await ctx.execute_activity("echo", town)
            await ctx.start_child_workflow("Hello", workflow_id=f"pack-{number}", input=town)
        await ctx.sleep(seconds)

    return pack


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> History:
    """What `packing` of Rome and Bern recorded."""

    async def scenario() -> History:
        own = App()
        own.workflow("Pack", packing("rome", "bern"))
        own.workflow("Hello", app.workflows["Hello"].function)
        own.activity("echo", app.activities["echo"].function)
        own.activity("shout", app.activities["shout"].function)
        async with served(tmp_path_factory.mktemp("packed"), own) as here:
            await here.start("Pack", "pack")
            await here.recorded(ev.TimerScheduled, "pack")
            here.skip(6)
            await here.recorded(ev.WorkflowCompleted, "pack")
            return await fetch_history(here.client, "pack")

    return asyncio.run(asyncio.wait_for(scenario(), 60))


def test_inputs_that_did_not_change_are_followed(packed: History):
    assert replay_history(packed, app, workflow=packing("rome", "bern")) == ()


def test_inputs_that_were_exchanged_are_named(packed: History):
    error = difference(packed, packing("bern", "rome"))
    assert error.step == "step 1"
    assert "with arguments ['bern']" in error.found
    assert error.found.endswith(", which is the input of step 2")


def test_an_input_that_nothing_else_had_is_a_difference(packed: History):
    error = difference(packed, packing("rome", "kyiv"))
    assert error.step == "step 2"
    assert "with arguments ['kyiv']" in error.found


def test_a_step_that_is_missing_counts_before_an_input_that_changed(packed: History):
    error = difference(packed, packing("rome", "kyiv", seconds=0))
    assert (error.step, error.expected) == ("timer 1", "timer 1")


def test_a_timer_of_another_length_is_followed_with_a_warning(packed: History):
    (warning,) = replay_history(packed, app, workflow=packing("rome", "bern", seconds=60))
    assert "the history says timer 1 of 5 s, the code did timer 1 of 60 s" in warning
