"""Programs as users write them, on a real engine and a real database: every operation of ctx, typed values, endings."""

import asyncio
import dataclasses
import datetime
import decimal
import enum
import threading
import uuid
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from assay.core.model import events as ev
from assay.core.model.errors import (
    ActivityError,
    AlreadyExists,
    ChildError,
    Failure,
    Kind,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from assay.sdk.app import App
from assay.sdk.values.retry import Retry
from assay.sdk.workflow.activity_context import ActivityContext
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.exceptions import CancelRequested
from tests.sdk.end_to_end import on_loop, place, served
from tests.sdk.worker import activities

app = App()
app.activity("process_number", activities.process_number, runs_in="process")
app.activity("counts in a process", activities.counts, runs_in="process")


@app.activity
async def double(number: int) -> int:
    return number * 2


@app.activity
def thread_name(ctx: ActivityContext) -> str:
    return f"{ctx.info().workflow_id} in {threading.current_thread().name}"


@app.workflow
async def grown(ctx: Context, age: int) -> int:
    return await ctx.execute_activity(double, age)


@app.workflow
async def everything(ctx: Context, order: dict[str, Any]) -> dict[str, Any]:
    """Every operation once."""
    state = {"stage": "begun"}
    ctx.register_query("stage", lambda: state["stage"])
    ctx.logger.info("begun")
    found: dict[str, Any] = {"number": await ctx.execute_activity(double, order["number"])}
    found["thread"] = await ctx.execute_activity(thread_name)
    found["parallel"] = await ctx.execute_parallel([(double, 1), {"name": "double", "input": 2}])
    found["step"] = await ctx.run("step", lambda: order["number"] + 1)
    found["effect"] = await ctx.side_effect("effect", lambda: str(uuid.uuid4()))
    found["child"] = await ctx.start_child_workflow(grown, workflow_id=f"{ctx.workflow_id}-child", input=5)
    await ctx.sleep("30m")
    await ctx.upsert_search_attributes({"stage": "waiting"})
    ctx.upsert_memo({"note": "waits"})
    state["stage"] = "waiting"
    found["signal"] = await ctx.wait_for_signal("go")
    found["no signal"] = await ctx.wait_for_signal("never", timeout="1h")
    found["facts"] = [ctx.info().workflow_type, ctx.now() > ctx.info().start_time, ctx.history_length() > 10]
    found["random"] = [str(ctx.uuid4()), ctx.random().random()]
    async with asyncio.timeout(3600):
        found["gathered"] = await asyncio.gather(ctx.execute_activity(double, 4), ctx.execute_activity(double, 5))
    state["stage"] = "ended"
    return found


@app.workflow
def everything_blocking(ctx: BlockingContext, order: dict[str, Any]) -> dict[str, Any]:
    """The same without await."""
    state = {"stage": "begun"}
    ctx.register_query("stage", lambda: state["stage"])
    found: dict[str, Any] = {"number": ctx.execute_activity(double, order["number"])}
    found["thread"] = ctx.execute_activity(thread_name)
    found["parallel"] = ctx.execute_parallel([(double, 1), {"name": "double", "input": 2}])
    found["step"] = ctx.run("step", lambda: order["number"] + 1)
    found["effect"] = ctx.side_effect("effect", lambda: str(uuid.uuid4()))
    found["child"] = ctx.start_child_workflow(grown, workflow_id=f"{ctx.workflow_id}-child", input=5)
    ctx.sleep("30m")
    ctx.upsert_search_attributes({"stage": "waiting"})
    ctx.upsert_memo({"note": "waits"})
    state["stage"] = "waiting"
    found["signal"] = ctx.wait_for_signal("go")
    found["no signal"] = ctx.wait_for_signal("never", timeout="1h")
    found["facts"] = [ctx.info().workflow_type, ctx.now() > ctx.info().start_time, ctx.history_length() > 10]
    found["random"] = [str(ctx.uuid4()), ctx.random().random()]
    found["gathered"] = ctx.execute_parallel([(double, 4), (double, 5)])
    state["stage"] = "ended"
    return found


@pytest.mark.parametrize("workflow", [everything, everything_blocking])
@on_loop
async def test_every_operation_of_ctx(tmp_path: Path, workflow: Any):
    async with served(tmp_path, app) as here:
        handle = await here.start(workflow, "all", {"number": 21})
        await here.recorded(ev.TimerScheduled, "all")
        here.skip(1800)
        await here.recorded(ev.WorkflowAwaitingSignal, "all")
        record = await handle.describe()
        assert (record.search_attributes, record.memo) == ({"stage": "waiting"}, {"note": "waits"})
        assert await handle.query("stage") == "waiting"
        assert [run.workflow_id for run in await here.client.list(search_attrs={"stage": "waiting"})] == ["all"]
        await handle.signal("go", {"by": "ada"})
        await here.recorded(ev.WorkflowAwaitingSignal, "all", times=2)
        here.skip(3600)
        found = await handle.result()
        assert await handle.query("stage") == "ended"
    assert found["number"] == 42
    assert found["thread"].startswith("all in assay-")
    assert (found["parallel"], found["step"], found["child"]) == ([2, 4], 22, 10)
    assert (found["signal"], found["no signal"]) == ({"by": "ada"}, None)
    assert found["facts"][1:] == [True, True]
    assert found["gathered"] == [8, 10]
    uuid.UUID(found["effect"])


@on_loop
async def test_an_activity_may_run_in_a_process_of_its_own(tmp_path: Path):
    own = App()
    own.activity("number", activities.process_number, runs_in="process")

    @own.workflow
    async def asks(ctx: Context) -> int:
        return await ctx.execute_activity("number")

    async with served(tmp_path, own) as here:
        assert await here.run(asks, "asks") != activities.process_number()


# values


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Item:
    name: str
    price: decimal.Decimal


class Address(pydantic.BaseModel):
    street: str
    since: datetime.date


class Money(msgspec.Struct):
    amount: int
    currency: str = "EUR"


class Extra(TypedDict):
    tags: list[str]


@dataclasses.dataclass
class Order:
    id: uuid.UUID
    at: datetime.datetime
    items: list[Item]
    address: Address
    total: Money
    color: Color
    extra: Extra
    blob: bytes
    wait: datetime.timedelta


ORDER = Order(
    id=uuid.UUID(int=7),
    at=datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC),
    items=[Item("pen", decimal.Decimal("1.10"))],
    address=Address(street="Main", since=datetime.date(2020, 1, 2)),
    total=Money(110),
    color=Color.RED,
    extra={"tags": ["new"]},
    blob=b"\x00\xff",
    wait=datetime.timedelta(minutes=5),
)


@app.activity
def check(order: Order) -> Order:
    assert order == ORDER
    return order


@app.workflow
async def typed(ctx: Context, order: Order) -> Order:
    checked = await ctx.execute_activity(check, order)
    effect = await ctx.side_effect("money", lambda: Money(5).amount)
    paid: Money = await ctx.wait_for_signal("paid", type=Money)
    assert (checked, effect, paid) == (ORDER, 5, Money(5, "USD"))
    stepped = await ctx.run("again", check, checked)
    return await ctx.start_child_workflow(typed_child, workflow_id="typed-child", input=stepped)


@app.workflow
def typed_child(order: Order) -> Order:
    assert order == ORDER
    return order


@on_loop
async def test_values_keep_their_types_all_the_way(tmp_path: Path):
    async with served(tmp_path, app) as here:
        handle = await here.start(typed, "typed", ORDER)
        await handle.signal("paid", Money(5, "USD"))
        assert await handle.result() == ORDER


# failures and retries


@on_loop
async def test_an_activity_is_tried_again_after_a_back_off(tmp_path: Path):
    own, tries = App(), []

    @own.activity
    async def stumbles(ctx: ActivityContext) -> Any:
        tries.append(ctx.info().attempt)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return tries

    @own.workflow
    async def calls(ctx: Context) -> Any:
        return await ctx.execute_activity(stumbles, retry=Retry(max_attempts=5, initial_interval="1m", backoff=2))

    async with served(tmp_path, own) as here:
        handle = await here.start(calls, "calls")
        await here.until(lambda: len(tries) == 1)
        await here.until(lambda: _resting(here, "calls"))
        here.skip(59)
        await asyncio.sleep(0.02)
        assert tries == [1], "never early"
        here.skip(2)
        await here.until(lambda: len(tries) == 2)
        await here.until(lambda: _resting(here, "calls"))
        here.skip(121)
        assert await handle.result() == [1, 2, 3]


def _resting(here: Any, workflow_id: str) -> bool:
    """Does an activity of the run wait for its next attempt?"""
    run = here.engine._committer.cache.newest(("main", workflow_id))
    return run is not None and any(activity.not_before is not None for activity in run.activities.values())


@on_loop
async def test_a_failure_tells_its_whole_story(tmp_path: Path):
    own = App()

    @own.activity
    def fails() -> None:
        try:
            int("x")
        except ValueError as error:
            raise Failure("bad number", kind=Kind.INVALID, retryable=False, details={"at": 3}) from error

    @own.workflow
    async def calls(ctx: Context) -> None:
        await ctx.execute_activity(fails)

    @own.workflow
    async def parent(ctx: Context) -> None:
        try:
            await ctx.start_child_workflow(calls, workflow_id="calls")
        except ChildError as error:
            raise RuntimeError("the child did not make it") from error

    async with served(tmp_path, own) as here:
        with pytest.raises(WorkflowFailed, match="the child did not make it") as caught:
            await here.run(parent, "parent")
        record = await here.client.describe("parent")
        assert record is not None
        assert record.status == "FAILED"
    story, error = [], caught.value
    while error is not None:
        story.append((type(error).__name__, error.message, error.kind))
        error = error.cause
    assert story[0] == ("WorkflowFailed", "the child did not make it", "INTERNAL")
    assert ("Failure", "bad number", "INVALID") in story
    assert story[-1][1].startswith("invalid literal")
    assert "raise RuntimeError" in (caught.value.stack or "")


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("start_to_close_secs", "start_to_close"),
        ("heartbeat_timeout_secs", "heartbeat"),
        ("schedule_to_start_secs", "schedule_to_start"),
        ("schedule_to_close_secs", "schedule_to_close"),
    ],
)
@on_loop
async def test_every_clock_of_an_activity(tmp_path: Path, option: str, expected: str):
    own, begun = App(), asyncio.Event()
    queue = "nobody-serves-it" if expected == "schedule_to_start" else "default"

    @own.activity
    async def hangs() -> None:
        begun.set()
        await asyncio.sleep(60)

    @own.workflow
    async def calls(ctx: Context) -> Any:
        try:
            await ctx.execute_activity(hangs, task_queue=queue, max_attempts=1, **{option: 10})
        except ActivityError as error:
            return [error.kind, error.timeout_type, error.details]

    async with served(tmp_path, own) as here:
        handle = await here.start(calls, "calls")
        if queue == "default":
            await begun.wait()
        await here.recorded(ev.ActivityScheduled, "calls")
        here.skip(10.5)
        assert await handle.result() == ["TIMEOUT", expected, {"timeout_type": expected}]


@on_loop
async def test_the_next_attempt_goes_on_where_the_last_one_was(tmp_path: Path):
    own, lost = App(), asyncio.Event()

    @own.activity
    async def copies(ctx: ActivityContext) -> Any:
        begun = ctx.heartbeat_details or {"at": 0}
        ctx.heartbeat({"at": begun["at"] + 5})
        if ctx.info().attempt == 1:
            lost.set()
            await asyncio.sleep(60)  # hangs: only its heartbeat tells
        return [ctx.info().attempt, begun]

    @own.workflow
    async def calls(ctx: Context) -> Any:
        return await ctx.execute_activity(copies, heartbeat_timeout_secs=5, initial_interval_secs=0.001)

    async with served(tmp_path, own) as here:
        handle = await here.start(calls, "calls")
        await lost.wait()
        await here.until(lambda: here.engine._committer.cache.newest(("main", "calls")).activities[1].heartbeat_at)
        here.skip(6)
        assert await handle.result() == [2, {"at": 5}]


@on_loop
async def test_a_poisonous_program_stops_nobody_else(tmp_path: Path):
    own = App()
    own.activity(double)

    @own.workflow
    async def leaves(ctx: Context) -> None:
        raise SystemExit(1)

    @own.workflow
    async def spins(ctx: Context) -> None:
        while True:  # that is the point
            await asyncio.sleep(0)

    @own.workflow
    async def opens(ctx: Context) -> None:
        open("/etc/hosts")  # noqa: SIM115, ASYNC230  # refused

    @own.workflow
    async def works(ctx: Context) -> int:
        return await ctx.execute_activity(double, 4)

    async with served(tmp_path, own) as here:
        await here.start(leaves, "leaves")
        await here.start(opens, "opens")
        await here.start(spins, "spins")
        assert await here.run(works, "works") == 8
        with pytest.raises(WorkflowFailed, match=r"ctx\.run"):
            await here.client.result("opens")
        with pytest.raises(WorkflowFailed):
            await here.client.result("leaves")
        record = await here.client.describe("spins")
        assert record is not None
        assert record.stuck["reason"] == "task_failed"


# how runs end and go on


@app.workflow
async def patient(ctx: Context) -> str:
    try:
        await ctx.wait_for_signal("never")
    except CancelRequested as request:
        await ctx.execute_activity(double, 1)
        if request.reason == "finish":
            return "finished"
        raise
    return "signalled"


@on_loop
async def test_a_run_may_be_cancelled_and_terminated(tmp_path: Path):
    async with served(tmp_path, app) as here:
        handle = await here.start(patient, "p-1")
        await here.recorded(ev.WorkflowAwaitingSignal, "p-1")
        await handle.cancel("not needed")
        with pytest.raises(WorkflowCancelled, match="not needed"):
            await handle.result()
        assert len(await here.recorded(ev.ActivityCompleted, "p-1")) == 1, "it cleaned up"
        handle = await here.start(patient, "p-2")
        await here.recorded(ev.WorkflowAwaitingSignal, "p-2")
        await handle.cancel("finish")
        assert await handle.result() == "finished"
        handle = await here.start(patient, "p-3")
        await handle.terminate("by hand")
        with pytest.raises(WorkflowTerminated, match="by hand"):
            await handle.result()


@on_loop
async def test_a_chain_of_runs_is_one_workflow(tmp_path: Path):
    own = App()

    @own.workflow
    async def counts(ctx: Context, at: int) -> Any:
        for _ in range(2):
            at += await ctx.wait_for_signal("add")
        if at < 6:
            ctx.continue_as_new(at)
        return at

    async with served(tmp_path, own) as here:
        handle = await here.start(counts, "counts", 0)
        for _ in range(6):
            await handle.signal("add", 1)
        assert await handle.result() == 6
        runs = await here.client.list_runs("counts")
        assert [(run.status, run.close_reason) for run in runs] == [
            ("COMPLETED", "continued_as_new"),
            ("COMPLETED", "continued_as_new"),
            ("COMPLETED", None),
        ]


@on_loop
async def test_a_workflow_may_have_a_retry_policy(tmp_path: Path):
    own, attempts = App(), []

    @own.workflow
    async def stumbles(ctx: Context) -> Any:
        attempts.append(ctx.info().attempt)
        if len(attempts) < 3:
            raise ValueError("not yet")
        return attempts

    async with served(tmp_path, own) as here:
        handle = await here.start(stumbles, "s", retry_policy={"initial_interval": 60, "maximum_attempts": 5})
        for pause in (60, 120):
            await here.recorded(ev.WorkflowFailed, "s", times=pause // 60)
            here.skip(pause + 1)
        assert await handle.result() == [1, 2, 3]


@on_loop
async def test_a_start_may_be_delayed(tmp_path: Path):
    own, began = App(), []

    @own.workflow
    async def late(ctx: Context) -> str:
        began.append(ctx.now())
        return "late"

    async with served(tmp_path, own) as here:
        handle = await here.start(late, "late", start_delay="1h")
        await asyncio.sleep(0.02)
        assert began == []
        with pytest.raises(AlreadyExists):
            await here.start(late, "late")
        here.skip(3601)
        assert await handle.result() == "late"


@on_loop
async def test_a_cron_schedule_starts_run_after_run(tmp_path: Path):
    own, ran = App(), []

    @own.workflow
    async def tick(ctx: Context) -> int:
        ran.append(ctx.info().run_id)
        return len(ran)

    async with served(tmp_path, own) as here:
        await here.start(tick, "tick", cron_schedule="0 0 * * * *")
        for number in range(1, 4):
            here.skip(3601)
            await here.until(lambda number=number: len(ran) >= number)
        await here.client.terminate("tick")
    assert len(set(ran)) == len(ran)


@on_loop
async def test_time_limits_of_runs(tmp_path: Path):
    async with served(tmp_path, app) as here:
        handle = await here.start(patient, "limited", run_timeout="1m", execution_timeout="2m")
        await here.recorded(ev.WorkflowAwaitingSignal, "limited")
        here.skip(61)
        with pytest.raises(WorkflowTimedOut):
            await handle.result()


@on_loop
async def test_children_follow_their_policy_when_their_parent_closes(tmp_path: Path):
    own = App()

    @own.workflow
    async def child(ctx: Context) -> None:
        await ctx.wait_for_signal("never")

    @own.workflow
    async def parent(ctx: Context) -> None:
        for policy in ("terminate", "abandon", "request_cancel"):
            asyncio.create_task(  # noqa: RUF006  # the loop keeps it
                ctx.start_child_workflow(child, workflow_id=policy, parent_close_policy=policy)
            )
        await ctx.wait_for_signal("end")

    async with served(tmp_path, own) as here:
        handle = await here.start(parent, "parent")
        for policy in ("terminate", "abandon", "request_cancel"):
            await here.recorded(ev.WorkflowAwaitingSignal, policy)
        await handle.signal("end")
        await handle.result()
        with pytest.raises(WorkflowTerminated):
            await here.client.result("terminate")
        with pytest.raises(WorkflowCancelled):
            await here.client.result("request_cancel")
        record = await here.client.describe("abandon")
        assert record is not None
        assert record.status == "RUNNING"
        children = await here.client.list_children("parent")
        assert [found.workflow_id for found in children] == ["terminate", "abandon", "request_cancel"]


# workers come and go


def version_one() -> App:
    own = App()
    own.activity(double)

    @own.workflow(name="changes")
    async def changes(ctx: Context) -> Any:
        first = await ctx.execute_activity(double, 1)
        await ctx.wait_for_signal("go")
        return [first, await ctx.execute_activity(double, 2)]

    return own


def version_two(*, fixed: bool) -> App:
    own = App()
    own.activity(double)

    @own.workflow(name="changes")
    async def changes(ctx: Context) -> Any:
        if not fixed:
            await ctx.sleep(1)
        first = await ctx.execute_activity(double, 1)
        await ctx.wait_for_signal("go")
        return [first, await ctx.execute_activity(double, 3)]

    return own


@on_loop
async def test_a_run_that_is_stuck_is_healed_by_fixed_code(tmp_path: Path):
    async with place(tmp_path, App()) as here:
        async with here.worker(version_one()):
            handle = await here.start("changes", "c")
            await here.recorded(ev.WorkflowAwaitingSignal, "c")
        async with here.worker(version_two(fixed=False)):
            await handle.signal("go")
            stuck = await here.until(lambda: here.engine._committer.cache.newest(("main", "c")).task.stuck)
            assert stuck.reason == "non_determinism"
            assert "timer 1" in stuck.message
            assert (await handle.describe()).status == "RUNNING"
        async with here.worker(version_two(fixed=True)):
            here.skip(61)
            assert await handle.result() == [2, 6]
            record = await handle.describe()
            assert record.stuck is None


@on_loop
async def test_runs_that_do_not_fit_into_the_cache_are_replayed(tmp_path: Path):
    own = App()
    own.activity(double)

    @own.workflow
    async def long(ctx: Context, number: int) -> Any:
        found = [await ctx.side_effect("number", lambda: number)]
        for step in range(3):
            found.append(await ctx.execute_activity(double, number + step))
            found.append(await ctx.wait_for_signal("go"))
            found.append(await ctx.run("step", lambda step=step: step))
        return found

    async with served(tmp_path, own, max_cached_runs=1) as here:
        handles = [await here.start(long, f"long-{number}", number) for number in range(12)]
        for turn in range(3):
            await asyncio.gather(*(handle.signal("go", turn) for handle in handles))
        results = await asyncio.gather(*(handle.result() for handle in handles))
    for number, found in enumerate(results):
        assert found == [number, *(part for step in range(3) for part in (2 * (number + step), step, step))]


@on_loop
async def test_a_worker_that_stops_leaves_its_work_to_the_next_at_once(tmp_path: Path):
    own, first = App(), asyncio.Event()

    @own.activity
    async def slow() -> str:
        first.set()
        await asyncio.sleep(0 if first.is_set() and own.queue == "moved" else 60)
        return "done"

    @own.workflow
    async def calls(ctx: Context) -> Any:
        step = asyncio.create_task(ctx.run("step", lambda: asyncio.sleep(0 if own.queue == "moved" else 60, "stepped")))
        return [await ctx.execute_activity(slow, max_attempts=1), await step]

    async with place(tmp_path, own) as here:
        async with here.worker(clean=False, drain_seconds=0.05, queue="default"):
            handle = await here.start(calls, "calls")
            await first.wait()
        own.queue = "moved"
        async with here.worker(queue="default"):
            assert await handle.result() == ["done", "stepped"]


@on_loop
async def test_a_program_that_is_killed_goes_on_where_it_was(tmp_path: Path):
    own, ran = App(), []

    @own.activity
    async def note(name: str) -> str:
        ran.append(name)
        return name

    @own.workflow
    async def steps(ctx: Context) -> Any:
        first = await ctx.execute_activity(note, "first")
        await ctx.sleep("1h")
        return [first, await ctx.execute_activity(note, "second")]

    async with served(tmp_path, own) as here:
        await here.start(steps, "steps")
        await here.recorded(ev.TimerScheduled, "steps")
    async with served(tmp_path, own) as here:
        here.skip(3601)
        assert await here.client.result("steps") == ["first", "second"]
    assert ran == ["first", "second"]


@on_loop
async def test_many_at_once(tmp_path: Path):
    own = App()
    own.activity(double)

    @own.workflow
    async def fans_out(ctx: Context, width: int) -> int:
        return sum(await asyncio.gather(*(ctx.execute_activity(double, number) for number in range(width))))

    async with served(tmp_path, own) as here:
        results = await asyncio.gather(*(here.run(fans_out, f"fan-{number}", 40) for number in range(10)))
    assert results == [sum(range(40)) * 2] * 10
