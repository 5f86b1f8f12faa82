"""The version of a change is one number for the life of a run, whatever code is deployed meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest

import assay
from assay import DEFAULT_VERSION
from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import Invalid, UnsupportedVersion
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from tests.sdk.support import Trial, app_of, check_replay

Code = Callable[[Context], Any]


async def old(ctx: Context) -> Any:
    await ctx.execute_activity("charge")
    await ctx.wait_for_signal("go")
    return "old"


def changed(minimum: int, maximum: int, *, early: bool = False) -> Code:
    """The code with a version, before or after the wait."""

    async def code(ctx: Context) -> Any:
        found = [ctx.version("pay", minimum, maximum)] if early else []
        await ctx.execute_activity("charge")
        await ctx.wait_for_signal("go")
        found.append(ctx.version("pay", minimum, maximum))
        await ctx.execute_activity("ship" if found[-1] > 0 else "send")
        return [*found, ctx.version("pay", minimum, maximum)]

    return code


def recorded(trial: Trial) -> list[ev.Event]:
    return [event for event in trial.events if isinstance(event, ev.VersionRecorded)]


def test_a_new_run_records_the_newest_version_once():
    trial = Trial(changed(1, 2, early=True)).complete(1).signal("go").complete(2)
    assert trial.result == [2, 2, 2]
    assert recorded(trial) == [ev.VersionRecorded("pay", 2)]


def test_a_recorded_version_stays_when_a_newer_one_is_deployed():
    trial = Trial(changed(1, 2, early=True)).deploy(changed(1, 5, early=True)).complete(1).signal("go").complete(2)
    assert trial.result == [2, 2, 2]
    assert recorded(trial) == [ev.VersionRecorded("pay", 2)]


def test_a_run_that_has_passed_the_call_keeps_the_default_for_life():
    trial = Trial(old).complete(1).deploy(changed(DEFAULT_VERSION, 1, early=True)).signal("go").complete(2)
    assert trial.result == [-1, -1, -1]
    assert recorded(trial) == []


def test_a_run_that_reaches_the_call_later_has_the_newest_version():
    trial = Trial(old).complete(1).deploy(changed(DEFAULT_VERSION, 1)).signal("go").complete(2)
    assert trial.result == [1, 1]
    assert recorded(trial) == [ev.VersionRecorded("pay", 1)]


@pytest.mark.parametrize("deploys", range(4))
def test_the_default_stays_however_often_the_run_is_replayed(deploys: int):
    trial = Trial(old).complete(1).deploy(changed(DEFAULT_VERSION, 1, early=True)).signal("go")
    for _ in range(deploys):
        trial.lose()
    assert trial.complete(2).result == [-1, -1, -1]


def test_patched_is_true_for_new_runs_and_false_for_older_ones():
    async def patched(ctx: Context) -> Any:
        first = ctx.patched("fast-path")
        await ctx.execute_activity("charge")
        await ctx.wait_for_signal("go")
        return [first, ctx.patched("fast-path")]

    assert Trial(patched).complete(1).signal("go").result == [True, True]
    assert Trial(old).complete(1).deploy(patched).signal("go").result == [False, False]


def test_different_changes_are_independent():
    async def code(ctx: Context) -> Any:
        return [ctx.version("one", 1, 3), ctx.version("two", 0, 0), ctx.version("one", 1, 3)]

    trial = Trial(code)
    assert trial.result == [3, 0, 3]
    assert recorded(trial) == [ev.VersionRecorded("one", 3), ev.VersionRecorded("two", 0)]


@pytest.mark.parametrize("caught", [False, True])
def test_an_unsupported_version_blocks_the_task_whatever_the_code_makes_of_it(caught: bool):
    async def strict(ctx: Context) -> Any:
        try:
            ctx.version("pay", 1, 2)
        except UnsupportedVersion:
            if not caught:
                raise
        await ctx.execute_activity("charge")
        await ctx.wait_for_signal("go")
        return "strict"

    trial = Trial(old).complete(1).deploy(strict)
    trial.signal("go")
    reason, message = trial.stuck
    assert reason == "unsupported_version"
    assert "'pay'" in message
    assert "the code supports versions 1 to 2" in message
    assert not trial.run.closed
    assert trial.deploy(changed(DEFAULT_VERSION, 2, early=True)).complete(2).result == [-1, -1, -1]


def test_a_recorded_version_that_the_code_no_longer_supports_blocks_the_task():
    trial = Trial(changed(1, 1, early=True)).complete(1).deploy(changed(2, 3, early=True)).signal("go")
    reason, message = trial.stuck
    assert reason == "unsupported_version"
    assert "recorded version 1 of change 'pay'" in message
    assert trial.deploy(changed(1, 3, early=True)).complete(2).result == [1, 1, 1]


def test_a_call_may_be_removed_when_every_run_has_the_change():
    trial = Trial(changed(1, 1, early=True)).complete(1).deploy(old).signal("go")
    assert trial.result == "old"


def test_a_call_that_moved_to_an_earlier_point_finds_its_record():
    trial = Trial(changed(1, 1)).complete(1).signal("go").deploy(changed(1, 1, early=True)).complete(2)
    assert trial.result == [1, 1, 1]


def test_the_default_as_newest_version_is_not_recorded():
    async def code(ctx: Context) -> Any:
        return ctx.version("pay", DEFAULT_VERSION, DEFAULT_VERSION)

    trial = Trial(code)
    assert (trial.result, recorded(trial)) == (-1, [])


def test_a_version_of_a_speculative_turn_that_was_refused_is_the_same_again():
    async def code(ctx: Context) -> Any:
        await ctx.run("fetch", lambda: 1)
        return ctx.version("pay", 1, 4)

    trial = Trial(code)
    with trial.together():
        trial.signal("in between")
    trial.lose()
    assert trial.step(1).result == 4
    assert len(recorded(trial)) == 1


def test_code_that_was_lost_between_two_parts_of_a_turn_has_the_default_in_that_turn():
    async def wide(ctx: Context) -> Any:
        found = await ctx.execute_parallel([("charge", n) for n in range(4)])
        return len(found)

    async def versioned(ctx: Context) -> Any:
        found = ctx.version("pay", DEFAULT_VERSION, 1)
        await ctx.execute_parallel([("charge" if found < 0 else "bill", n) for n in range(4)])
        return found

    class Dying(Trial):
        part_commands = 2

        def dies_between_parts(self) -> bool:
            self._held = True
            return True

    trial = Dying(wide)
    trial._held = False
    trial.dies_between_parts = lambda: False  # type: ignore[method-assign]
    trial.app = app_of(versioned)
    trial.lose()
    for seq in range(1, 5):
        trial.complete(seq)
    assert trial.result == -1


def failing(change: bool) -> Code:
    async def code(ctx: Context) -> Any:
        found = [ctx.version("pay", DEFAULT_VERSION, 1)] if change else []
        await ctx.execute_activity("charge")
        if change:
            found.append(ctx.version("pay", DEFAULT_VERSION, 1))
            found.append(ctx.version("mail", DEFAULT_VERSION, 1))
        await ctx.execute_activity("ship")
        if change:
            found.append(ctx.version("after", DEFAULT_VERSION, 1))
        return found

    return code


def test_a_reopened_run_has_the_default_up_to_the_last_echo_of_the_copy():
    trial = Trial(failing(change=False)).complete(1).fail(2)
    trial.app = app_of(failing(change=True))
    trial.reopen().complete(2)
    assert trial.result == [-1, -1, -1, 1]
    assert recorded(trial) == [ev.VersionRecorded("after", 1)]


def test_a_reopened_run_keeps_the_recorded_versions():
    trial = Trial(failing(change=True)).complete(1).fail(2).reopen()
    assert trial.run.versions == {"pay": 1, "mail": 1}
    assert trial.complete(2).result == [1, 1, 1, 1]


def test_versions_end_with_the_run_when_it_continues_as_new():
    async def code(ctx: Context) -> Any:
        ctx.version("pay", 1, 1)
        await ctx.wait_for_signal("go")
        ctx.continue_as_new()

    trial = Trial(code).signal("go")
    assert trial.world.run.run_id != trial.key.run_id
    assert trial.world.run.versions == {}


def test_a_plain_def_workflow_has_versions():
    def code(ctx: BlockingContext) -> Any:
        first = ctx.version("pay", 1, 2)
        ctx.execute_activity("charge")
        return [first, ctx.patched("fast"), assay.version("pay", 1, 9)]

    assert Trial(code).complete(1).result == [2, True, 2]


def test_the_function_without_a_ctx_gives_the_run_its_version_and_others_the_newest():
    async def code(ctx: Context) -> Any:
        return [assay.version("pay", 1, 2), ctx.version("pay", 1, 3)]

    trial = Trial(code)
    assert trial.result == [2, 2]
    assert recorded(trial) == [ev.VersionRecorded("pay", 2)]
    assert assay.version("pay", 1, 7) == 7


@pytest.mark.parametrize(
    ("arguments", "field"),
    [(("", 1, 2), "change_id"), (("x", 3, 2), "min"), (("x", -2, 2), "min"), (("x", True, 2), "min"),
     (("x", 1, 2.0), "max"), ((7, 1, 2), "change_id"), (("x", 1, 2**31), "max")],
)  # fmt: skip
def test_malformed_calls_are_refused_inside_and_outside_of_workflows(arguments: tuple[Any, ...], field: str):
    async def code(ctx: Context) -> Any:
        with pytest.raises(Invalid) as caught:
            ctx.version(*arguments)
        return caught.value.field

    assert Trial(code).result == field
    with pytest.raises(Invalid) as caught:
        assay.version(*arguments)
    assert caught.value.field == field


def test_a_version_is_the_same_however_inputs_are_batched():
    trial = Trial(changed(1, 2, early=True)).complete(1).signal("go")
    check_replay(trial)
    assert [type(command) for command in trial.commands].count(cmd.RecordVersion) == 1
