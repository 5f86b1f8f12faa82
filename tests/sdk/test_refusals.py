"""Impossible commands are refused at the call, or fail their own run; other runs are not affected.

These tests run a second time with the engine behind HTTP, see `tests/http/test_same_as_embedded.py`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from assay.core.model import commands as cmd
from assay.core.model.errors import Failure, Invalid, NotFound, WorkflowFailed
from assay.sdk.app import App
from assay.sdk.client.client import Client
from assay.sdk.values.retry import Retry
from assay.sdk.worker.worker import Worker
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.exceptions import CancelRequested, ContinueAsNewRequested
from assay.sdk.workflow.replay.journal import child_name
from tests.sdk.end_to_end import on_loop

SECONDS = 10
"""Long before a lease runs out twice: what ends only then was not refused, but lost."""

app = App()


@app.activity
async def echo(value: Any) -> Any:
    return value


@app.workflow
async def fine(ctx: Context, value: Any) -> Any:
    return await ctx.execute_activity(echo, value)


@contextlib.asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Client]:
    """A client, and a worker beside which nothing else serves."""
    async with await Client.connect(f"sqlite://{folder}/engine.db", app=app) as client:
        worker = Worker(client, drain_seconds=0.2)
        running = asyncio.create_task(worker.run())
        try:
            yield client
        finally:
            worker.stop()
            await running


async def outcome(client: Client, workflow: Any, input: Any) -> Any:
    """How a run ends; its worker serves others as before, and its history can be read."""
    handle = await client.start(workflow, input, workflow_id=f"bad-{input}")
    try:
        ended = await asyncio.wait_for(handle.result(), SECONDS)
    except WorkflowFailed as failure:
        ended = failure
    other = await client.start(fine, 42, workflow_id=f"other-{input}")
    assert await asyncio.wait_for(other.result(), SECONDS) == 42
    assert (await client.get_events(handle.workflow_id))[0].event_type == "WorkflowStarted"
    return ended


# turns that the engine refuses


@app.workflow
async def oversized(ctx: Context, kind: str) -> Any:
    match kind:
        case "attribute, then a timer":
            ctx.upsert_search_attributes({"key": "x" * 3_000})
            await ctx.sleep(0.01)
        case "attribute, then the end":
            ctx.upsert_search_attributes({"key": "x" * 3_000})
        case "attribute, then another run":
            ctx.upsert_search_attributes({"key": "x" * 3_000})
            ctx.continue_as_new("never")
        case "attribute after an activity":
            await ctx.execute_activity(echo, 1)
            ctx.upsert_search_attributes({"key": "x" * 3_000})
        case "attribute after a step":
            await ctx.run("step", lambda: 1)
            ctx.upsert_search_attributes({"key": "x" * 3_000})
        case "activities":
            await asyncio.gather(*(ctx.execute_activity(echo, number) for number in range(2_100)))
    return "ended"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("attribute, then a timer", "search attribute 'key' is too long"),
        ("attribute, then the end", "search attribute 'key' is too long"),
        ("attribute, then another run", "search attribute 'key' is too long"),
        ("attribute after an activity", "search attribute 'key' is too long"),
        ("attribute after a step", "search attribute 'key' is too long"),
    ],
)
@on_loop
async def test_a_turn_that_the_engine_refuses_fails_the_run_with_the_reason(tmp_path: Path, kind: str, reason: str):
    async with served(tmp_path) as client:
        failure = await outcome(client, oversized, kind)
        assert isinstance(failure, WorkflowFailed)
        assert (failure.message, failure.kind) == (reason, "INVALID")
        record = await client.describe(f"bad-{kind}")
        assert record is not None
        assert (record.status, record.error) == ("FAILED", reason)


# functions and policies where code gives them


@app.workflow
async def stubborn(ctx: Context, tries: int) -> int:
    if ctx.info().attempt < tries:
        raise ValueError("not yet")
    return ctx.info().attempt


@app.workflow
async def parent(ctx: Context, policy: str) -> int:
    retry: Any = Retry(max_attempts=3, initial_interval="10ms")
    if policy == "mapping":
        retry = {"max_attempts": 3, "initial_interval": 0.01}
    if policy == "at once":
        retry = Retry(max_attempts=3, initial_interval=0)
    return await ctx.start_child_workflow(
        stubborn, workflow_id=f"{ctx.workflow_id}-child", input=3, retry_policy=retry, run_timeout=timedelta(minutes=1)
    )


@pytest.mark.parametrize("policy", ["Retry", "mapping", "at once"])
@on_loop
async def test_a_child_is_retried_by_its_policy(tmp_path: Path, policy: str):
    async with served(tmp_path) as client:
        assert await outcome(client, parent, policy) == 3


@app.workflow
async def first(ctx: Context, how: str) -> Any:
    ctx.continue_as_new({"from": how}, workflow_type=fine if how == "function" else "fine")


@pytest.mark.parametrize("how", ["function", "name"])
@on_loop
async def test_the_next_run_may_be_of_another_type(tmp_path: Path, how: str):
    async with served(tmp_path) as client:
        assert await outcome(client, first, how) == {"from": how}
        assert [run.workflow_type for run in await client.list_runs(f"bad-{how}")] == ["first", "fine"]


# values of wrong types in workflow code


class Word(str):
    """A text, but not of a type that everybody knows."""


def child(**options: Any) -> Callable[[Context], Any]:
    return lambda ctx: ctx.start_child_workflow(**{"workflow_type": fine, "workflow_id": "child", **options})


wrong: Any = 5
IN_CODE: dict[str, Callable[[Context], Any]] = {
    "activity must be a name or a function, not int": lambda ctx: ctx.execute_activity(wrong),
    "activity must not be empty": lambda ctx: ctx.execute_activity(""),
    "task_queue must be a text, not int": lambda ctx: ctx.execute_activity(echo, 1, task_queue=wrong),
    "summary must be a text, not int": lambda ctx: ctx.execute_activity(echo, 1, summary=wrong),
    "retry must be a Retry or a mapping, not int": lambda ctx: ctx.execute_activity(echo, 1, retry=wrong),
    "an item of execute_parallel is {'name', 'input', 'opts'} or (activity, input)": lambda ctx: ctx.execute_parallel(
        [(echo, 1), wrong]
    ),
    "opts must be a mapping, not int": lambda ctx: ctx.execute_parallel([(echo, 1, wrong)]),
    "step name must be a text, not int": lambda ctx: ctx.run(wrong, lambda: 1),
    "signal name must be a text, not int": lambda ctx: ctx.wait_for_signal(wrong, timeout=1),
    "signal name must not be empty": lambda ctx: ctx.wait_for_signal("", timeout=1),
    "side effect name must be a text, not int": lambda ctx: ctx.side_effect(wrong, lambda: 1),
    "side effect 'x' needs a function, not int": lambda ctx: ctx.side_effect("x", wrong),
    "query name must be a text, not int": lambda ctx: ctx.register_query(wrong, lambda: 1),
    "query 'x' needs a function, not int": lambda ctx: ctx.register_query("x", wrong),
    "search_attributes must be a mapping, not int": lambda ctx: ctx.upsert_search_attributes(wrong),
    "memo must be a mapping, not list": lambda ctx: ctx.upsert_memo(cast(Any, [("a", 1)])),
    "reason must be a text, not int": lambda ctx: ctx.cancel(wrong),
    "reason contains the character U+0000": lambda ctx: ctx.cancel("a\0b"),
    "workflow_type must be a name or a function, not int": lambda ctx: ctx.continue_as_new(workflow_type=wrong),
    "task_queue must be a text, not bytes": lambda ctx: ctx.continue_as_new(task_queue=cast(Any, b"q")),
    "workflow_type must be a name or a function, not list": child(workflow_type=[fine]),
    "workflow_id must be a text, not int": child(workflow_id=wrong),
    "task_queue must be a text, not float": child(task_queue=1.5),
    "summary must be a text, not list": child(summary=["x"]),
    "details must be a text, not int": child(details=wrong),
    "cron_schedule must be a text, not int": child(cron_schedule=wrong),
    "run_timeout: expected seconds, a timedelta or a text such as '1h30m', not list": child(run_timeout=[1]),
    "retry_policy must be a Retry or a mapping, not int": child(retry_policy=wrong),
    "parent_close_policy is '5'; it can be terminate, abandon, request_cancel": child(parent_close_policy=wrong),
    "id_reuse_policy is '5'; it can be allow_duplicate, allow_duplicate_failed_only, reject_duplicate": child(
        id_reuse_policy=wrong
    ),
    "context must be a mapping, not int": child(context=wrong),
    "start_child_workflow has no option 'summry'; did you mean 'summary'?": child(summry="x"),
}


@app.workflow
async def mistaken(ctx: Context, _: Any) -> list[str]:
    """Makes every mistake, and goes on after each."""
    messages = []
    for call in IN_CODE.values():
        try:
            made = call(ctx)
            messages.append(f"no refusal but {await made if asyncio.iscoroutine(made) else made}")
        except Invalid as error:
            messages.append(str(error))
    return messages


@app.workflow
async def words_of_other_types(ctx: Context, _: Any) -> Any:
    word = Word("fine")
    await ctx.side_effect(word, lambda: 1)
    await ctx.run(word, lambda: 1)
    await ctx.wait_for_signal(word, timeout=0.01)
    await ctx.execute_activity(Word("echo"), 1, summary=word, task_queue=Word("default"))
    found = await ctx.start_child_workflow(word, workflow_id=Word(f"{ctx.workflow_id}-child"), input=7, details=word)
    ctx.continue_as_new(found, workflow_type=word, task_queue=Word("default"))


@on_loop
async def test_wrong_values_in_code_are_refused_at_the_call_by_their_names(tmp_path: Path):
    async with served(tmp_path) as client:
        assert await outcome(client, mistaken, 1) == list(IN_CODE)
        events = [event.event_type for event in await client.get_events("bad-1")]
        assert events == ["WorkflowStarted", "WorkflowCompleted"]


@app.workflow
async def mistake(ctx: Context, message: str) -> None:
    made = IN_CODE[message](ctx)
    if asyncio.iscoroutine(made):
        await made


@on_loop
async def test_a_mistake_that_nobody_catches_fails_its_run_and_no_other(tmp_path: Path):
    async with served(tmp_path) as client:
        begun = [
            await client.start(mistake, message, workflow_id=f"bad-{number}") for number, message in enumerate(IN_CODE)
        ]
        ended = await asyncio.gather(
            *(asyncio.wait_for(handle.result(), SECONDS) for handle in begun), return_exceptions=True
        )
        assert [(type(one), getattr(one, "message", "")) for one in ended] == [(WorkflowFailed, m) for m in IN_CODE]
        assert await asyncio.wait_for((await client.start(fine, 42, workflow_id="other")).result(), SECONDS) == 42


@on_loop
async def test_a_text_is_one_whatever_its_class(tmp_path: Path):
    async with served(tmp_path) as client:
        assert await outcome(client, words_of_other_types, Word("x")) == 7


# values of wrong types in programs

IN_PROGRAMS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "workflow_type must be a name or a function, not int": lambda client: client.start(wrong),
    "workflow_id must be a text, not float": lambda client: client.start(fine, workflow_id=cast(Any, 1.5)),
    "task_queue must be a text, not int": lambda client: client.run(fine, task_queue=wrong),
    "error_if_exists must be True or False, not int": lambda client: client.start(fine, error_if_exists=wrong),
    "signals must be a list: of names, of (name, payload), or of mappings with both": lambda client: client.start(
        fine, signals=wrong
    ),
    "summary contains half of a surrogate pair": lambda client: client.start(fine, summary="\ud800"),
    "workflow_id must be a text, not int": lambda client: client.describe(wrong),
    "workflow_id must be a text, not NoneType": lambda client: client.get_events(cast(Any, None)),
    "workflow_id must be a text, not bytes": lambda client: client.result(cast(Any, b"x")),
    "workflow_id must be a text, not list": lambda client: client.list_children(cast(Any, ["x"])),
    "workflow_id must be a text, not tuple": lambda client: client.list_runs(cast(Any, ("x",))),
    "workflow_id must be a text, not dict": lambda client: client.get_state(cast(Any, {})),
    "workflow_id must not be empty": lambda client: client.describe(""),
    "run_id must be a text, not int": lambda client: client.describe("x", wrong),
    "run_id must be a text, not list": lambda client: client.get_events("x", cast(Any, ["r"])),
    "run_id must be a text, not float": lambda client: client.terminate("x", run_id=cast(Any, 1.5)),
    "namespace must be a text, not int": lambda client: client.describe("x", namespace=wrong),
    "query name must be a text, not int": lambda client: client.get_state("x", wrong),
    "query name must be a text, not NoneType": lambda client: client.query("x", cast(Any, None)),
    "signal name must be a text, not int": lambda client: client.signal("x", wrong),
    "reason must be a text, not int": lambda client: client.cancel("x", wrong),
    "reason must be a text, not dict": lambda client: client.terminate("x", cast(Any, {"a": 1})),
    "deadline: must not be negative": lambda client: client.cancel("x", "r", -1),
    "type must be a text, not int": lambda client: client.list(type=wrong),
    "status must be a text, not int": lambda client: client.list(status=wrong),
    "cursor must be a text, not int": lambda client: client.list(cursor=wrong),
    "limit must be a whole number from 1 to 10,000": lambda client: client.list(limit=100_000),
    "offset must be a whole number from 0 to 4,611,686,018,427,387,903": lambda client: client.list(offset=-1),
    "search_attrs must be a mapping, not int": lambda client: client.list(search_attrs=wrong),
    "search_attrs.a: NaN is not a JSON number": lambda client: client.list(search_attrs={"a": float("nan")}),
    "created_after must be a time in seconds since the epoch, or a datetime": lambda client: client.list(
        created_after=cast(Any, "yesterday")
    ),
    "name must be a text, not int": lambda client: client.schedules.create(wrong, "fine", "@every 1h"),
    "name must be a text, not list": lambda client: client.schedules.describe(cast(Any, ["x"])),
    "name must be a text, not float": lambda client: client.schedules.pause(cast(Any, 1.5)),
    "cron_expr must be a text, not int": lambda client: client.schedules.create("s", "fine", wrong),
    "timezone must be a text, not int": lambda client: client.schedules.create(
        "s", "fine", "@every 1h", timezone=wrong
    ),
    "paused must be True or False, not int": lambda client: client.schedules.create(
        "s", "fine", "@every 1h", paused=wrong
    ),
    "remaining must be a whole number from 1 to 9,007,199,254,740,991": lambda client: client.schedules.patch(
        "s", remaining=cast(Any, "5")
    ),
    "clear must be a list of names, not int": lambda client: client.schedules.patch("s", clear=wrong),
    "by must be a text, not int": lambda client: client.schedules.pause("s", "r", wrong),
    "count must be a whole number from 1 to 1,000": lambda client: client.schedules.preview("s", cast(Any, "5")),
}


@on_loop
async def test_wrong_values_in_programs_are_refused_at_the_call_by_their_names(tmp_path: Path):
    async with await Client.connect(f"sqlite://{tmp_path}/engine.db", app=app) as client:
        for message, call in IN_PROGRAMS.items():
            with pytest.raises(Invalid) as caught:
                await call(client)
            assert str(caught.value) == message
            assert caught.value.field, message
        with pytest.raises(Invalid, match="limit must be a whole number from 1 to 10,000"):
            await client.list(limit=cast(Any, "5"))
        assert await client.list() == []


# the same answers, whatever the engine is


@app.workflow
async def talkative(ctx: Context, _: Any) -> str:
    ctx.register_query("first", lambda: "x" * 1_500_000)
    ctx.register_query("second", lambda: "y" * 1_500_000)
    await ctx.sleep(0.01)
    return "ended"


@on_loop
async def test_answers_of_queries_that_are_too_large_together_do_not_change_how_a_run_ends(tmp_path: Path):
    async with served(tmp_path) as client:
        assert await outcome(client, talkative, 1) == "ended"
        assert len(await client.query("bad-1", "first")) == 1_500_000
        assert await client.get_state("bad-1", "second") is None


@on_loop
async def test_what_is_not_there_is_said_in_the_same_words(tmp_path: Path):
    async with served(tmp_path) as client:
        calls = [
            client.get_events("nobody"),
            client.get_events("nobody", "run"),
            client.result("nobody"),
            client.result("nobody", "run"),
            client.list_runs("nobody"),
            client.signal("nobody", "go"),
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [(type(one), str(one)) for one in answers] == [(NotFound, "workflow nobody not found")] * len(calls)


@on_loop
async def test_every_start_has_an_id_of_its_own(tmp_path: Path):
    async with served(tmp_path) as client:
        begun = [
            await client.start(fine, 1, workflow_id="one"),
            await client.start(fine, 1, workflow_id="two"),
            await client.start(fine, 1, workflow_id="three", request_id="mine"),
        ]
        found = [(await client.get_events(handle.workflow_id))[0].request_id for handle in begun]
        assert [name[:2] for name in found] == ["r-", "r-", "mi"]
        assert len(set(found)) == 3
        assert found[2] == "mine"


# a client in workflow code

USES: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "start": lambda client: client.start(fine, 1, workflow_id="from inside"),
    "run": lambda client: client.run(fine, 1, workflow_id="from inside"),
    "describe": lambda client: client.describe("nobody"),
    "signal": lambda client: client.signal("nobody", "go"),
    "schedules": lambda client: client.schedules.list(),
    "namespaces": lambda client: client.namespaces.list(),
}


@on_loop
async def test_a_client_is_of_no_use_in_workflow_code(tmp_path: Path):
    """Also on a connection that is already open: the request would be sent and its response never be read."""
    async with served(tmp_path) as client:

        @app.workflow
        async def careless(ctx: Context, use: str) -> Any:
            return await USES[use](client)

        await asyncio.gather(*(client.describe("nobody") for _ in range(4)))
        for use in USES:
            failure = await outcome(client, careless, use)
            assert isinstance(failure, WorkflowFailed)
            assert failure.message.startswith(
                "workflow code called assay.Client, which cannot be replayed: do it in an"
            )
        assert await client.describe("from inside") is None
        del app.workflows["careless"]


# what gets around all checks of the SDK, as a mistake of ours might


@app.activity
async def fails_oddly() -> None:
    failure = Failure("it failed")
    failure.retryable = 0  # type: ignore[assignment]
    raise failure


@app.workflow
async def odd(ctx: Context, kind: str) -> None:
    run = ctx._run
    match kind:
        case "signal":
            run.order("wait for signal", run.count("wait for signal"), "x", cmd.WaitForSignal(wrong))
        case "side effect":
            run.order("side effect", 1, "x", cmd.RecordSideEffect(1, wrong))
        case "child":
            child = cmd.StartChildWorkflow("fine", "odd-child", seq=1, summary=wrong)
            run.children["odd-child"] = run.loop.create_future()
            run.order("child workflow", 1, child_name("fine", "odd-child"), child)
            await run.children["odd-child"]
        case "new run":
            raise ContinueAsNewRequested(cmd.ContinueAsNew(task_queue=wrong))
        case "cancel":
            run.cancelled_itself, run.cancel_reason = True, wrong
            raise CancelRequested
        case "failure":
            failure = Failure("it failed")
            failure.retryable = wrong
            raise failure
        case "failure of an activity":
            await ctx.execute_activity(fails_oddly, max_attempts=2, initial_interval_secs=0.01)
    await ctx.sleep(0.01)


KINDS = ["signal", "side effect", "child", "new run", "cancel", "failure", "failure of an activity"]


@pytest.mark.parametrize("kind", KINDS)
@on_loop
async def test_what_no_history_can_hold_fails_one_run_and_is_never_recorded(tmp_path: Path, kind: str):
    async with served(tmp_path) as client:
        failure = await outcome(client, odd, kind)
        assert isinstance(failure, WorkflowFailed)
        assert (await client.get_events(f"bad-{kind}"))[-1].event_type == "WorkflowFailed"
    async with served(tmp_path) as client:  # an engine that was restarted knows only what is recorded
        assert [run.status for run in await client.list(type="odd")] == ["FAILED"]
