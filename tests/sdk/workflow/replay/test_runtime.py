"""What code asks for becomes commands; what happens to the run reaches the code, in order and alike on every replay."""

import asyncio
import datetime
from typing import Any

import pytest

import assay
from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import ActivityError, ChildError, Kind
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND
from assay.sdk.values.retry import Retry
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from tests.core.support import NOW
from tests.sdk.support import Trial, app_of, check_replay, inputs_of, payload, replayed_commands, value_of


def kinds(trial: Trial) -> list[str]:
    return [type(command).__name__ for command in trial.commands]


def test_handlers_get_the_contexts_that_users_import():
    async def waiting(ctx: Any) -> bool:
        return isinstance(ctx, assay.Context)

    def blocking(ctx: Any) -> bool:
        return isinstance(ctx, assay.BlockingContext)

    assert (Trial(waiting).result, Trial(blocking).result) == (True, True)
    with pytest.raises(TypeError, match="abstract"):
        assay.Context()  # type: ignore[abstract]


# activities


def test_an_activity_is_scheduled_and_its_result_returned():
    async def workflow(ctx: Context, order: Any) -> Any:
        return await ctx.execute_activity("charge", {"amount": order["amount"]}) + 1

    trial = Trial(workflow, {"amount": 41})
    assert trial.turn.commands == (cmd.ScheduleActivity(1, "charge", "default", payload({"amount": 41})),)
    trial.complete(1, 41)
    assert trial.result == 42
    check_replay(trial)


def test_options_of_an_activity_reach_the_command():
    async def workflow(ctx: Context) -> None:
        await ctx.execute_activity(
            "charge",
            task_queue="gpu",
            retry=Retry(max_attempts=5, initial_interval="2s", non_retryable=ValueError),
            start_to_close="1m",
            heartbeat_timeout_secs=datetime.timedelta(seconds=3),
        )

    (command,) = Trial(workflow).turn.commands
    assert isinstance(command, cmd.ScheduleActivity)
    assert (command.task_queue, command.max_attempts, command.initial_interval_secs) == ("gpu", 5, 2)
    assert (command.start_to_close_secs, command.heartbeat_timeout_secs) == (60, 3)
    assert command.non_retryable == ("ValueError",)


def test_an_unknown_option_is_refused():
    async def workflow(ctx: Context) -> None:
        await ctx.execute_activity("charge", start_to_clos=1)

    assert "start_to_clos" in Trial(workflow).failure.message


def test_a_failed_activity_raises_what_it_failed_with():
    async def workflow(ctx: Context) -> Any:
        try:
            await ctx.execute_activity("charge")
        except ActivityError as error:
            return [error.activity, error.attempts, error.kind, error.details, error.type]

    trial = Trial(workflow).fail(1, "no money", kind=Kind.INVALID, details=payload({"card": 7}), type="BrokeError")
    assert trial.result == ["charge", 1, "INVALID", {"card": 7}, "BrokeError"]
    check_replay(trial)


def test_results_are_decoded_by_the_annotation_of_the_activity():
    def stamp() -> datetime.datetime: ...

    async def workflow(ctx: Context) -> str:
        found = await ctx.execute_activity(stamp)
        return found.strftime("%Y")

    trial = Trial(app_of(workflow, stamp)).complete(1, "2024-05-06T07:08:09Z")
    assert trial.result == "2024"


def test_parallel_activities_are_ordered_at_once_and_answered_in_the_order_of_the_items():
    async def workflow(ctx: Context) -> Any:
        return await ctx.execute_parallel([{"name": "charge", "input": 1, "opts": {"task_queue": "q"}}, ("ship", 2)])

    trial = Trial(workflow)
    assert [(command.name, command.task_queue) for command in trial.turn.commands] == [
        ("charge", "q"),
        ("ship", "default"),
    ]
    trial.complete(2, "shipped").complete(1, "charged")
    assert trial.result == ["charged", "shipped"]
    check_replay(trial)


def test_parallel_activities_are_waited_for_even_if_one_fails():
    async def workflow(ctx: Context) -> Any:
        try:
            await ctx.execute_parallel([("charge", 1), ("ship", 2), ("bill", 3)])
        except ActivityError as error:
            return error.activity

    trial = Trial(workflow).fail(3).fail(2)
    assert trial.closing is None
    trial.complete(1)
    assert trial.result == "ship"
    check_replay(trial)


# timers


def test_sleep_is_a_timer_and_time_is_that_of_the_last_input():
    async def workflow(ctx: Context) -> Any:
        began = ctx.now()
        await ctx.sleep("1m30s")
        return (ctx.now() - began).total_seconds()

    trial = Trial(workflow)
    assert trial.turn.commands == (cmd.ScheduleTimer(1, 90),)
    trial.fire(1)
    assert trial.result == pytest.approx(90, abs=0.01)
    check_replay(trial)


def test_a_sleep_of_nothing_needs_no_timer_and_a_negative_one_is_refused():
    async def workflow(ctx: Context) -> None:
        await ctx.sleep(0)
        await ctx.sleep(-1)

    trial = Trial(workflow)
    assert kinds(trial) == ["FailWorkflow"]
    assert trial.failure.kind == Kind.INVALID


def test_now_does_not_move_while_code_runs():
    async def workflow(ctx: Context) -> Any:
        first = ctx.now()
        await asyncio.sleep(0)
        return [first.isoformat(), ctx.now().isoformat()]

    first, second = Trial(workflow).result
    assert first == second == datetime.datetime.fromtimestamp(NOW / SECOND, datetime.UTC).isoformat()


@pytest.mark.parametrize("timer_first", [True, False])
@pytest.mark.parametrize("limit", ["timeout", "wait_for"])
def test_a_timeout_picks_the_same_winner_on_replay(limit: str, timer_first: bool):
    async def workflow(ctx: Context) -> Any:
        try:
            if limit == "wait_for":
                return await asyncio.wait_for(ctx.execute_activity("charge"), 5)
            async with asyncio.timeout(5):
                return await ctx.execute_activity("charge")
        except TimeoutError:
            await ctx.execute_activity("refund")
            return "too late"

    trial = Trial(workflow).lease(1)
    with trial.together():  # both are in history before anybody looks
        if timer_first:
            trial.fire(1)
            trial.complete(1, "charged")
        else:
            trial.complete(1, "charged")
            trial.fire(1)
    if timer_first:
        trial.lose().complete(2)
    assert trial.result == ("too late" if timer_first else "charged")
    check_replay(trial)


def test_a_timer_that_is_given_up_is_cancelled():
    async def workflow(ctx: Context) -> Any:
        async with asyncio.timeout(60):
            await ctx.execute_activity("charge")
        return await ctx.wait_for_signal("paid")

    trial = Trial(workflow).complete(1)
    assert cmd.CancelTimer(1) in trial.commands
    assert trial.run.timers == {}
    trial.lose().signal("paid", 1)
    assert trial.result == 1
    check_replay(trial)


# asyncio


def test_gather_runs_side_by_side():
    async def workflow(ctx: Context) -> Any:
        async def one(name: str) -> Any:
            first = await ctx.execute_activity(name)
            return await ctx.execute_activity(f"{name} again", first)

        return await asyncio.gather(one("charge"), one("ship"))

    trial = Trial(workflow).complete(2, "b").complete(3, "bb").complete(1, "a").complete(4, "aa")
    assert trial.result == ["aa", "bb"]
    assert [command.name for command in trial.commands[:-1]] == ["charge", "ship", "ship again", "charge again"]
    check_replay(trial)


def test_a_task_group_cancels_the_others_when_one_fails():
    async def workflow(ctx: Context) -> Any:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.execute_activity("charge"))
                group.create_task(ctx.execute_activity("ship"))
        except* ActivityError as group_of_errors:
            found = [error.activity for error in group_of_errors.exceptions]
        return found

    trial = Trial(workflow).fail(2)
    assert cmd.RequestCancelActivity(1) in trial.commands
    assert trial.result == ["ship"]
    check_replay(trial)


def test_the_first_of_several_wins_and_the_rest_are_withdrawn():
    async def workflow(ctx: Context) -> Any:
        tasks = [asyncio.create_task(ctx.execute_activity(name)) for name in ("charge", "ship", "bill")]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        return [task.result() for task in done]

    trial = Trial(workflow).complete(2, "shipped")
    assert trial.result == ["shipped"]
    assert [command for command in trial.commands if isinstance(command, cmd.RequestCancelActivity)] == [
        cmd.RequestCancelActivity(1),
        cmd.RequestCancelActivity(3),
    ]
    check_replay(trial)


def test_queues_events_locks_and_semaphores():
    async def workflow(ctx: Context) -> Any:
        jobs: asyncio.Queue[int] = asyncio.Queue(2)
        ready, lock, few, log = asyncio.Event(), asyncio.Lock(), asyncio.Semaphore(2), []

        async def worker(name: str) -> None:
            await ready.wait()
            while True:
                job = await jobs.get()
                async with few, lock:
                    log.append([name, job, await ctx.execute_activity("charge", job)])
                jobs.task_done()

        workers = [asyncio.create_task(worker(name)) for name in ("a", "b")]
        for job in range(3):
            if job == 2:
                ready.set()
            await jobs.put(job)
        await jobs.join()
        for task in workers:
            task.cancel()
        return log

    trial = Trial(workflow)
    for seq in (1, 2, 3):
        trial.complete(seq, seq)
        if seq == 2:
            trial.lose()
    assert trial.result == [["a", 0, 1], ["b", 1, 2], ["a", 2, 3]]
    check_replay(trial)


def test_the_end_of_the_main_coroutine_is_the_end_of_all():
    async def workflow(ctx: Context) -> str:
        async def other() -> None:
            await ctx.side_effect("late", lambda: 1)
            await ctx.execute_activity("late")

        task = asyncio.create_task(other())
        return f"left {task.get_name()} alone"

    trial = Trial(workflow)
    assert kinds(trial) == ["CompleteWorkflow"]
    check_replay(trial)


def test_a_blocking_handler_does_the_same_without_await():
    def workflow(ctx: BlockingContext, order: Any) -> Any:
        charged = ctx.execute_activity("charge", order)
        ctx.sleep(5)
        number = ctx.side_effect("number", lambda: 7)
        step = ctx.run("step", lambda: "stepped")
        paid = ctx.wait_for_signal("paid", timeout=60)
        return [charged, number, step, paid, ctx.execute_parallel([("a", 1), ("b", 2)])]

    trial = Trial(workflow, "order").complete(1, "charged").fire(1).step(1).lose().fire(2).complete(2, "a")
    trial.lose().complete(3, "b")
    assert trial.result == ["charged", 7, "stepped", None, ["a", "b"]]
    check_replay(trial)


# children


async def with_child(ctx: Context) -> Any:
    try:
        return await ctx.start_child_workflow("Child", workflow_id="child-1", input={"of": ctx.workflow_id})
    except ChildError as error:
        return [error.workflow_id, error.kind, error.message]


def test_a_child_is_started_and_its_result_returned():
    trial = Trial(with_child)
    (command,) = trial.turn.commands
    assert isinstance(command, cmd.StartChildWorkflow)
    assert (command.workflow_type, command.workflow_id, value_of(command.input)) == (
        "Child",
        "child-1",
        {"of": "order-1"},
    )
    trial.child("child-1", cmd.CompleteWorkflow(payload("grown")))
    assert trial.result == "grown"
    check_replay(trial)


def test_a_child_that_fails_raises():
    info = FailureInfo(kind=Kind.INVALID, message="bad seed")
    trial = Trial(with_child).child("child-1", cmd.FailWorkflow("bad seed", info))
    assert trial.result == ["child-1", "INVALID", "bad seed"]
    check_replay(trial)


def test_a_child_that_cannot_be_started_raises():
    async def workflow(ctx: Context) -> Any:
        try:
            await ctx.start_child_workflow("Child", workflow_id=ctx.workflow_id)
        except ChildError as error:
            await ctx.sleep(1)
            return [error.workflow_id, error.kind]

    trial = Trial(workflow)
    assert isinstance(trial.events[1], ev.ChildWorkflowFailed)
    trial.lose().fire(1)
    assert trial.result == ["order-1", "ALREADY_EXISTS"]


def test_the_same_child_id_twice_is_one_child():
    async def workflow(ctx: Context) -> Any:
        both = await asyncio.gather(
            *(ctx.start_child_workflow("Child", workflow_id="child-1", input=number) for number in (1, 2))
        )
        return [*both, await ctx.start_child_workflow("Child", workflow_id="child-1")]

    trial = Trial(workflow)
    assert kinds(trial) == ["StartChildWorkflow"]
    trial.child("child-1", cmd.CompleteWorkflow(payload(5)))
    assert trial.result == [5, 5, 5]
    check_replay(trial)


def test_options_of_a_child_reach_the_command_and_unknown_ones_are_refused():
    async def workflow(ctx: Context) -> Any:
        await asyncio.gather(
            ctx.start_child_workflow(
                "Child",
                workflow_id="child-1",
                parent_close_policy="abandon",
                run_timeout=datetime.timedelta(minutes=1),
                search_attributes={"tenant": "a"},
            ),
            ctx.start_child_workflow("Child", workflow_id="child-2", run_time_out=1),
        )

    trial = Trial(workflow)
    (command, _) = trial.commands
    assert isinstance(command, cmd.StartChildWorkflow)
    assert (command.parent_close_policy, command.run_timeout) == ("abandon", 60)
    assert value_of(command.search_attributes) == {"tenant": "a"}
    assert "run_time_out" in trial.failure.message


# what code may know


def test_random_values_are_the_same_on_every_replay_and_differ_between_runs():
    async def workflow(ctx: Context) -> Any:
        first = [str(ctx.uuid4()), ctx.random().random()]
        await ctx.sleep(1)
        return [*first, str(ctx.uuid4()), ctx.random().randint(0, 10**9)]

    one = Trial(workflow).lose().fire(1)
    other = Trial(workflow)
    other.key = one.key
    assert replayed_commands(one.key, one.app, [inputs_of(one.history)])[-1] == one.commands[-1]
    assert len(set(one.result)) == 4


def test_history_length_and_size_count_what_code_was_told():
    async def workflow(ctx: Context) -> Any:
        sizes = [(ctx.history_length(), ctx.history_size())]
        for _ in range(3):
            await ctx.wait_for_signal("paid")
            sizes.append((ctx.history_length(), ctx.history_size()))
        return [[length for length, _ in sizes], [size for _, size in sizes]]

    trial = Trial(workflow).signal("paid", "x" * 100).lose().signal("paid", "y" * 10)
    with trial.together():
        trial.signal("paid")
    lengths, sizes = trial.result
    assert lengths == [1, 3, 5, 7]
    assert sizes[1] - sizes[0] > 100 > sizes[2] - sizes[1] > 10
    check_replay(trial)


def test_info_says_who_the_run_is():
    async def workflow(ctx: Context) -> Any:
        info = ctx.info()
        return [info.workflow_id, info.run_id, info.workflow_type, info.task_queue, info.namespace, info.attempt]

    assert Trial(workflow, task_queue="q").result == ["order-1", "run-1", "Order", "q", "main", 1]


def test_queries_are_answered_after_every_turn_in_which_they_changed():
    async def workflow(ctx: Context) -> None:
        state = {"stage": "begun"}
        ctx.register_query("state", lambda: state)
        ctx.register_query("broken", lambda: 1 / 0)
        await ctx.wait_for_signal("paid")
        await ctx.wait_for_signal("paid")
        state["stage"] = "paid"
        await ctx.wait_for_signal("sent")

    trial = Trial(workflow).signal("paid").signal("paid").lose()
    snapshots = [command for command in trial.commands if isinstance(command, cmd.RecordSnapshot)]
    assert [value_of(snapshot.state) for snapshot in snapshots] == [
        {"state": {"stage": "begun"}},
        {"state": {"stage": "paid"}},
    ]


def test_attributes_are_merged_and_may_be_awaited():
    async def workflow(ctx: Context) -> None:
        await ctx.upsert_search_attributes({"stage": "one", "tenant": "a"})
        ctx.upsert_search_attributes({"stage": "two"})
        ctx.upsert_memo({"note": [1]})
        await ctx.sleep(1)

    trial = Trial(workflow)
    assert value_of(trial.run.search) == {"stage": "two", "tenant": "a"}
    assert value_of(trial.run.memo) == {"note": [1]}
    trial.lose().fire(1)
    check_replay(trial)


def test_a_handler_may_leave_out_what_it_does_not_need():
    async def workflow() -> int:
        return 5

    assert Trial(workflow, {"ignored": 1}).result == 5
