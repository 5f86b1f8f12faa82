"""The inputs of replayed calls are compared with the recorded ones: no call gets the result of another (I19)."""

import asyncio
import contextlib
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import ActivityError
from assay.core.model.events import Recorded
from assay.core.model.input_hash import input_hash
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay import inputs
from assay.sdk.workflow.replay.inputs import warn_once
from assay.sdk.workflow.replay.outcomes import size_of
from tests.sdk.support import Trial

Code = Callable[[Context], Awaitable[Any]]


def by_activity(*shops: Any) -> Code:
    async def workflow(ctx: Context) -> Any:
        found = {str(shop): await ctx.execute_activity("price", shop) for shop in shops}
        await ctx.wait_for_signal("go")
        return found

    return workflow


def by_step(*shops: Any) -> Code:
    async def workflow(ctx: Context) -> Any:
        found = {str(shop): await ctx.run("price", lambda of: f"price of {of}", shop) for shop in shops}
        await ctx.wait_for_signal("go")
        return found

    return workflow


def by_child(*shops: Any) -> Code:
    async def workflow(ctx: Context) -> Any:
        found = {}
        for number, shop in enumerate(shops):
            found[str(shop)] = await ctx.start_child_workflow("Price", workflow_id=f"child-{number}", input=shop)
        await ctx.wait_for_signal("go")
        return found

    return workflow


def priced(kind: Callable[..., Code], *shops: Any) -> Trial:
    """A run of three calls that have ended, waiting for a signal."""
    trial = Trial(kind(*shops))
    for number, shop in enumerate(shops):
        if kind is by_activity:
            trial.complete(number + 1, f"price of {shop}")
        elif kind is by_step:
            trial.step(number + 1)
        else:
            trial.child(f"child-{number}", cmd.CompleteWorkflow(msgspec.Raw(msgspec.json.encode(f"price of {shop}"))))
    return trial


KINDS = {"activity": by_activity, "step": by_step, "child workflow": by_child}
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What is logged of a test's runs, which have the ids of those of every other test."""
    monkeypatch.setattr(inputs, "_warned", {})
    caplog.set_level(logging.WARNING, "assay.worker")
    return lambda: [record.getMessage() for record in caplog.records]


@each_kind
def test_calls_that_changed_places_are_non_determinism(kind: str, warnings: Callable[[], list[str]]):
    trial = priced(KINDS[kind], "A", "B", "C")
    seen = trial.run.last_seq
    trial.deploy(KINDS[kind]("B", "A", "C")).signal("go")
    reason, message = trial.stuck
    assert reason == "non_determinism"
    assert f"no longer follows its history at {kind} 1: the history says {kind} 1 '" in message
    assert f", which is the input of {kind} 2. The run goes on" in message
    assert "B" in message.partition("the code did")[2]
    assert trial.run.last_seq == seen + 1, "nothing but the signal was recorded"
    assert warnings() == []


@each_kind
def test_the_code_of_before_goes_on(kind: str):
    trial = priced(KINDS[kind], "A", "B").deploy(KINDS[kind]("B", "A")).signal("go")
    assert trial.stuck[0] == "non_determinism"
    assert trial.deploy(KINDS[kind]("A", "B")).result == {"A": "price of A", "B": "price of B"}


@each_kind
def test_the_input_may_be_recorded_further_on(kind: str):
    trial = priced(KINDS[kind], "A", "B", "C").deploy(KINDS[kind]("C")).signal("go")
    assert f", which is the input of {kind} 3. The run goes on" in trial.stuck[1]


@each_kind
def test_an_input_that_nothing_else_had_is_a_warning_once(kind: str, warnings: Callable[[], list[str]]):
    trial = priced(KINDS[kind], "A", "B").deploy(KINDS[kind]("new", "newer")).signal("look").lose().signal("go")
    assert trial.result == {"new": "price of A", "newer": "price of B"}
    (warning,) = warnings()
    recorded = '"A"' if kind == "activity" else input_hash(b'"A"' if kind == "child workflow" else b'["A"]')
    assert f"workflow order-1: {kind} 1 differs from its history" in warning
    assert recorded in warning.partition("the history says")[2].partition("the code did")[0]
    assert "new" in warning.partition("the code did")[2]


@each_kind
def test_the_same_value_may_be_written_in_another_way(kind: str, warnings: Callable[[], list[str]]):
    trial = priced(KINDS[kind], {"a": 1, "b": [{"d": 2, "c": 3}]})
    trial.deploy(KINDS[kind]({"b": [{"c": 3, "d": 2}], "a": 1})).signal("go")
    assert trial.result
    assert warnings() == []


@each_kind
def test_true_is_not_one(kind: str):
    trial = priced(KINDS[kind], 1, True).deploy(KINDS[kind](True, 1)).signal("go")
    assert trial.stuck[0] == "non_determinism"


def test_long_values_are_cut(warnings: Callable[[], list[str]]):
    priced(by_activity, "a" * 5_000).deploy(by_activity("b" * 5_000)).signal("go")
    assert len(warnings()[0]) < 500


def test_equal_inputs_of_other_names_do_not_count(warnings: Callable[[], list[str]]):
    def workflow(first: str) -> Code:
        async def code(ctx: Context) -> None:
            await ctx.execute_activity("price", first)
            await ctx.execute_activity("ship", "B")
            await ctx.wait_for_signal("go")

        return code

    trial = Trial(workflow("A")).complete(1).complete(2).deploy(workflow("B")).signal("go")
    assert trial.result is None
    assert len(warnings()) == 1


def test_a_timer_of_another_length_is_a_warning(warnings: Callable[[], list[str]]):
    def sleeping(seconds: float) -> Code:
        async def code(ctx: Context) -> str:
            await ctx.sleep(seconds)
            return "rested"

        return code

    trial = Trial(sleeping(5)).deploy(sleeping(5.0000001)).signal("look")
    assert warnings() == []
    trial.deploy(sleeping(60)).signal("look").fire(1)
    assert trial.result == "rested"
    (warning,) = warnings()
    assert "the history says timer 1 of 5 s, the code did timer 1 of 60 s" in warning


def test_calls_that_run_side_by_side_are_compared():
    def workflow(*shops: str) -> Code:
        async def code(ctx: Context) -> Any:
            return await asyncio.gather(*(ctx.execute_activity("price", shop) for shop in shops))

        return code

    trial = Trial(workflow("A", "B")).complete(2, "price of B").deploy(workflow("B", "A")).signal("look")
    assert trial.stuck[0] == "non_determinism"


def test_a_child_of_the_same_id_and_another_type_is_non_determinism():
    async def workflow(ctx: Context) -> Any:
        first = await ctx.start_child_workflow("Price", workflow_id="child-1")
        return [first, await ctx.start_child_workflow("Ship", workflow_id="child-1")]

    trial = Trial(workflow).child("child-1", cmd.CompleteWorkflow())
    reason, message = trial.stuck
    assert reason == "non_determinism"
    assert "the history says child workflow 'Price child-1', the code did child workflow 'Ship child-1'" in message


def test_a_child_of_the_same_id_and_type_is_the_same_child():
    async def workflow(ctx: Context) -> Any:
        first = await ctx.start_child_workflow("Price", workflow_id="child-1", input=1)
        return [first, await ctx.start_child_workflow("Price", workflow_id="child-1", input=2)]

    trial = Trial(workflow).child("child-1", cmd.CompleteWorkflow(msgspec.Raw(b"7")))
    assert trial.result == [7, 7]


def steps_of(trial: Trial) -> list[str | None]:
    return [event.input_hash for event in trial.events if isinstance(event, ev.StepCompleted | ev.StepFailed)]


def test_hashes_are_of_canonical_json():
    value = {"ä": [1, None, True], "a": {"z": "text", "b": 10**30}}
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    (step,) = steps_of(priced(by_step, value))
    assert step == hashlib.sha256(f"[{text}]".encode()).hexdigest()[:16]
    (child,) = (event for event in priced(by_child, value).events if isinstance(event, ev.ChildWorkflowStarted))
    assert child.input_hash == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_arguments_that_cannot_be_encoded_have_no_hash(warnings: Callable[[], list[str]]):
    trial = priced(by_step, object())
    assert steps_of(trial) == [None]
    assert trial.deploy(by_step("anything")).signal("go").result
    assert warnings() == []


def test_a_step_that_changes_its_arguments_may_be_tried_again():
    def spoils(items: list[int]) -> int:
        items.append(len(items))
        return len(items)

    async def workflow(ctx: Context) -> Any:
        return await ctx.run("spoil", spoils, [], max_attempts=5)

    trial = Trial(workflow)
    trial.running[1].order.function(*trial.running[1].order.args)
    trial.step(1, OSError("down"), attempt=1, retry_in=60.0).fire(1).lose()
    assert trial.step(2).result == 1
    assert len(set(steps_of(trial))) == 1


def unhashed(recorded: Recorded) -> Recorded:
    """An event as a worker or engine of before would have recorded it."""
    if not isinstance(recorded.event, ev.StepCompleted | ev.StepFailed):
        return recorded
    return msgspec.structs.replace(recorded, event=msgspec.structs.replace(recorded.event, input_hash=None))


def test_histories_without_hashes_are_followed(warnings: Callable[[], list[str]]):
    """Workers and engines of before record none: nothing is compared there."""
    trial = priced(by_step, "A", "B")
    trial.world.histories[trial.key.run_id] = list(map(unhashed, trial.history))
    assert trial.deploy(by_step("B", "A")).signal("go").result == {"B": "price of A", "A": "price of B"}
    assert warnings() == []


def test_hashes_do_not_count_as_history():
    """A worker or engine that knows no hashes must come to the same size."""

    async def workflow(ctx: Context) -> Any:
        await ctx.run("price", str, "A")
        with contextlib.suppress(ActivityError):
            await ctx.run("price", str, "B")
        return ctx.history_size()

    trial = Trial(workflow).step(1).step(2, ValueError("no"))
    inputs = [unhashed(recorded).event for recorded in trial.history if recorded.event.is_input]
    assert trial.result == sum(map(size_of, inputs))


def test_what_was_warned_of_is_remembered_within_limits(
    monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
):
    monkeypatch.setattr(inputs, "REMEMBERED_RUNS", 2)
    key = priced(by_activity, "A").key
    difference = inputs.Difference("activity", 1, "price", None, "one thing", "another")
    for run in ("a", "b", "b", "c", "c", "a"):
        warn_once(msgspec.structs.replace(key, run_id=run), difference)
    assert len(warnings()) == 4
    assert list(inputs._warned) == ["c", "a"]


def test_many_inputs_that_changed_cost_one_look_at_the_history(monkeypatch: pytest.MonkeyPatch):
    reads = []
    count = inputs.RecordedInputs.__init__
    monkeypatch.setattr(
        inputs.RecordedInputs, "__init__", lambda self, history: (reads.append(1), count(self, history))[1]
    )
    priced(by_activity, *range(50)).deploy(by_activity(*range(100, 150))).signal("look")
    assert reads == [1]
