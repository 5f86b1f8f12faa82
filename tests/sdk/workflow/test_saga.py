"""A saga runs its compensations newest first when an exception leaves it, and only then."""

import asyncio
from typing import Any

import pytest

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import Failure, Invalid
from assay.sdk.app import App
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from tests.sdk.support import Trial, check_replay, value_of


async def waiting(ctx: Context) -> str:
    async with ctx.saga() as saga:
        for number, step in enumerate(("flight", "hotel")):
            await ctx.execute_activity(f"book {step}")
            saga.add(f"cancel {step}", {"number": number}, max_attempts=7)
        await ctx.execute_activity("charge")
    return "booked"


def blocking(ctx: BlockingContext) -> str:
    with ctx.saga() as saga:
        for number, step in enumerate(("flight", "hotel")):
            ctx.execute_activity(f"book {step}")
            saga.add(f"cancel {step}", {"number": number}, max_attempts=7)
        ctx.execute_activity("charge")
    return "booked"


BOTH = pytest.mark.parametrize("workflow", [waiting, blocking])


def compensations(trial: Trial) -> list[tuple[str, Any, int | None]]:
    return [
        (command.name, value_of(command.input), command.max_attempts)
        for command in trial.commands
        if isinstance(command, cmd.ScheduleActivity) and command.name.startswith("cancel")
    ]


@BOTH
def test_a_saga_that_succeeds_compensates_nothing(workflow: Any):
    trial = Trial(workflow).complete(1).complete(2).complete(3)
    assert trial.result == "booked"
    assert compensations(trial) == []
    check_replay(trial)


@BOTH
def test_a_failure_is_compensated_newest_first_and_raised_again(workflow: Any):
    trial = Trial(workflow).complete(1).complete(2).fail(3, "no money")
    trial.complete(4).complete(5)
    assert trial.failure.message == "no money"
    assert compensations(trial) == [("cancel hotel", {"number": 1}, 7), ("cancel flight", {"number": 0}, 7)]
    check_replay(trial)


@BOTH
def test_a_failed_compensation_does_not_prevent_the_next_and_is_attached(workflow: Any):
    trial = Trial(workflow).complete(1).complete(2).fail(3, "no money", kind="CONFLICT")
    trial.fail(4, "hotel is closed").complete(5)
    assert (trial.failure.message, trial.failure.kind) == ("no money", "CONFLICT")
    (failed,) = value_of(trial.failure.details)["compensation_errors"]
    assert failed == {"compensation": "cancel hotel", "kind": "INTERNAL", "type": None, "message": "hotel is closed"}
    check_replay(trial)


@BOTH
def test_a_cancelled_run_compensates_under_a_shield(workflow: Any):
    trial = Trial(workflow).complete(1).complete(2).cancel("enough").complete(4)
    trial.cancel("again")
    assert not trial.run.closed
    trial.complete(5)
    assert isinstance(trial.closing, ev.WorkflowCancelled)
    assert [name for name, _, _ in compensations(trial)] == ["cancel hotel", "cancel flight"]
    check_replay(trial)


@BOTH
def test_a_dropped_coroutine_compensates_nothing(workflow: Any):
    trial = Trial(workflow).complete(1).complete(2)
    trial.crash()
    assert compensations(trial) == []
    assert trial.complete(3).result == "booked"


@pytest.mark.parametrize("is_blocking", [False, True])
def test_continue_as_new_compensates_nothing(is_blocking: bool):
    async def waiting(ctx: Context) -> None:
        async with ctx.saga() as saga:
            saga.add("cancel")
            ctx.continue_as_new(1)

    def blocking(ctx: BlockingContext) -> None:
        with ctx.saga() as saga:
            saga.add("cancel")
            ctx.continue_as_new(1)

    trial = Trial(blocking if is_blocking else waiting)
    assert [type(command) for command in trial.commands] == [cmd.ContinueAsNew]


def test_compensations_may_be_functions_of_the_workflow():
    app = App()

    @app.activity
    def release(number: int) -> None: ...

    async def undo(ctx: Context, name: str, *, times: int) -> None:
        for _ in range(times):
            await ctx.execute_activity(name)

    done: list[str] = []

    @app.workflow("Order")
    async def workflow(ctx: Context) -> None:
        async with ctx.saga() as saga:
            saga.add(release, 7)
            saga.add(undo, ctx, "undo", times=2)
            saga.add(done.append, "plain")
            raise ValueError("no")

    trial = Trial(app).complete(1).complete(2).complete(3)
    assert trial.failure.message == "no"
    assert [command.name for command in trial.commands if isinstance(command, cmd.ScheduleActivity)] == [
        "undo",
        "undo",
        "release",
    ]
    assert done == ["plain"]


def test_an_activity_may_have_several_inputs():
    async def workflow(ctx: Context) -> None:
        async with ctx.saga() as saga:
            saga.add("undo", 1, "two")
            raise ValueError("no")

    trial = Trial(workflow).complete(1)
    (command,) = [one for one in trial.commands if isinstance(one, cmd.ScheduleActivity)]
    assert value_of(command.input) == {"$args": [1, "two"]}


def test_blocking_compensations_may_be_functions_of_the_workflow():
    def undo(ctx: BlockingContext, name: str) -> None:
        ctx.execute_activity(name)

    def workflow(ctx: BlockingContext) -> None:
        with ctx.saga() as saga:
            saga.add(undo, ctx, "undo")
            raise ValueError("no")

    trial = Trial(workflow).complete(1)
    assert trial.failure.message == "no"
    check_replay(trial)


@pytest.mark.parametrize(
    ("error", "details"),
    [
        (Failure("no", details={"id": 7}), {"id": 7}),
        (Failure("no"), {}),
        (ValueError("no"), {"type": "ValueError"}),
    ],
)
def test_errors_of_compensations_are_kept_in_the_details(error: Exception, details: dict[str, Any]):
    async def workflow(ctx: Context) -> None:
        async with ctx.saga() as saga:
            saga.add("undo")
            raise error

    trial = Trial(workflow).fail(1, "stuck")
    found = value_of(trial.failure.details)
    assert found.pop("compensation_errors")[0]["message"] == "stuck"
    assert found == details
    assert "compensation undo failed: stuck" in error.__notes__


def test_details_that_are_no_mapping_stay_as_they_are():
    error = Failure("no", details=[1, 2])

    async def workflow(ctx: Context) -> None:
        async with ctx.saga() as saga:
            saga.add("undo")
            raise error

    trial = Trial(workflow).fail(1, "stuck")
    assert value_of(trial.failure.details) == [1, 2]
    assert error.__notes__ == ["compensation undo failed: stuck"]


def test_the_error_of_a_task_is_compensated_too():
    async def workflow(ctx: Context) -> None:
        async def fail() -> None:
            await ctx.sleep(1)
            raise ValueError("beside")

        async with ctx.saga() as saga:
            saga.add("undo")
            ctx.go(fail())
            await ctx.sleep("1h")

    trial = Trial(workflow).fire(2).complete(1)
    assert trial.failure.message == "beside"
    check_replay(trial)


@pytest.mark.parametrize("is_blocking", [False, True])
def test_a_cancel_that_was_held_by_an_inner_saga_does_not_interrupt_the_outer_one(is_blocking: bool):
    async def waiting(ctx: Context) -> None:
        async with ctx.saga() as outer:
            outer.add("undo outer")
            try:
                async with ctx.saga() as inner:
                    inner.add("undo inner")
                    raise ValueError("inner")
            except ValueError:
                raise KeyError("outer") from None

    def blocking(ctx: BlockingContext) -> None:
        with ctx.saga() as outer:
            outer.add("undo outer")
            try:
                with ctx.saga() as inner:
                    inner.add("undo inner")
                    raise ValueError("inner")
            except ValueError:
                raise KeyError("outer") from None

    trial = Trial(blocking if is_blocking else waiting).cancel().complete(1)
    assert not trial.run.closed
    trial.complete(2)
    assert trial.failure.type == "KeyError"
    assert b"compensation_errors" not in bytes(trial.failure.details)
    check_replay(trial)


def test_a_time_out_is_compensated():
    async def workflow(ctx: Context) -> str:
        try:
            async with asyncio.timeout(60):
                async with ctx.saga() as saga:
                    saga.add("undo")
                    await ctx.sleep("1h")
        except TimeoutError:
            return "too late"
        return "in time"

    trial = Trial(workflow).fire(1).complete(1)
    assert trial.result == "too late"
    check_replay(trial)


@pytest.mark.parametrize("given", [(5,), (None, 1)])
def test_what_cannot_be_a_compensation_is_refused(given: Any):
    async def workflow(ctx: Context) -> None:
        async with ctx.saga() as saga:
            saga.add(*given)

    with pytest.raises(Invalid):
        raise Invalid(Trial(workflow).failure.message)
