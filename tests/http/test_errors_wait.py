"""`errors="wait"`: a bug in workflow code fails the task and leaves the run open, until fixed code comes."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import App, Client, Worker
from tests.http.scenarios import on, serving, settled


def deployment(queue: str, ran: list[str], *, broken: bool) -> App:
    app = App(queue=queue)

    @app.activity
    async def charge(_: Any) -> str:
        ran.append("charge")
        return "charged"

    @app.activity
    async def ship(_: Any) -> str:
        ran.append("ship")
        return "shipped"

    @app.workflow(errors="wait")
    async def Order(ctx: assay.Context, style: str) -> list[Any]:
        if style == "steps":
            # more than are sent one by one: the later outcomes are recorded while the code goes on
            for _ in range(20):
                first: Any = await ctx.run("reserve", lambda: ran.append("reserve"))
        else:
            first = await ctx.execute_activity(charge, 1)
        shipping = asyncio.ensure_future(ctx.execute_activity(ship, 1))
        if broken:
            undefined_name  # type: ignore[name-defined]  # noqa: B018, F821
        return [first, await shipping]

    return app


def test_a_bug_waits_for_the_deployment_that_fixes_it(url: str):
    async def order(client: Client, style: str, *done: str) -> None:
        name, queue, ran = f"o-{uuid.uuid4().hex}", f"q-{uuid.uuid4().hex}", []
        async with serving(client, deployment(queue, ran, broken=True)):
            await client.start("Order", style, workflow_id=name, task_queue=queue)
            record = await settled(client, name, attempts=2)
        assert (record.status, record.stuck["reason"]) == ("RUNNING", "task_failed")
        assert "NameError: name 'undefined_name' is not defined" in record.stuck["message"]
        # what was recorded is not repeated, and the commands of the failed turn were not sent
        assert ran == [*done]
        kinds = {event.event_type for event in await client.get_events(name)}
        assert not any("Failed" in kind for kind in kinds)
        async with serving(client, deployment(queue, ran, broken=False)):
            assert (await client.result(name))[1] == "shipped"
        assert ran == [*done, "ship"]
        record = await client.describe(name)
        assert record is not None
        assert (record.status, record.stuck) == ("COMPLETED", None)

    async def scenario(client: Client) -> None:
        await asyncio.gather(order(client, "steps", *["reserve"] * 20), order(client, "activity", "charge"))

    on(url, scenario)


def test_a_live_run_is_replayed_by_healed_code(tmp_path: Path):
    """The same worker and the same function: nothing of the coroutine that failed is used again."""
    app, broken, ran = App(), [True], []

    @app.workflow
    async def Sale(ctx: assay.Context) -> int:
        local = 1
        await ctx.run("once", lambda: ran.append("once"))
        local += 1
        number = await ctx.side_effect("draw", lambda: ran.append("draw") or 7)
        if broken.pop() if broken else False:
            raise KeyError("price")
        return local + number

    async def scenario(client: Client) -> None:
        async with serving(client, app, errors="wait"):
            await client.start("Sale", workflow_id="s")
            assert "KeyError: 'price'" in (await settled(client, "s")).stuck["message"]
            assert await client.result("s") == 9
        # the side effect belonged to the turn that was not sent, and ran again
        assert ran == ["once", "draw", "draw"]

    on(f"sqlite://{tmp_path}/app.db", scenario)


def test_a_bug_before_the_end_of_the_history_is_named(tmp_path: Path):
    """Code that ends too early by an exception does not follow its history; the exception says why."""

    def app(*, broken: bool) -> App:
        made = App()

        @made.workflow(errors="wait")
        async def Wait(ctx: assay.Context) -> Any:
            if broken:
                raise ImportError("no module named 'money'")
            await ctx.sleep(0.001)
            return await ctx.wait_for_signal("go")

        return made

    async def scenario(client: Client) -> None:
        async with serving(client, app(broken=False)):
            await client.start("Wait", workflow_id="w")
            while (await client.explain("w")).waiting_on.signal is None:
                await asyncio.sleep(0.02)
        await client.signal("w", "go", 5)
        async with serving(client, app(broken=True)):
            record = await settled(client, "w")
            assert (record.stuck["reason"], record.status) == ("task_failed", "RUNNING")
            assert (
                "the code raised ImportError: no module named 'money' at test_errors_wait.py:"
                in record.stuck["message"]
            )
            assert "before timer 1" in record.stuck["message"]
        async with serving(client, app(broken=False)):
            assert await client.result("w") == 5

    on(f"sqlite://{tmp_path}/app.db", scenario)


class Unprintable(Exception):
    def __str__(self) -> str:
        return "a\0b\ud800"


async def fail(ctx: assay.Context) -> None:
    raise assay.Failure("said so", retryable=False)


async def fail_in_group(ctx: assay.Context) -> None:
    raise ExceptionGroup("both", [assay.Failure("one"), assay.ActivityError("two")])


async def leave(ctx: assay.Context) -> None:
    raise SystemExit(3)


async def mixed_group(ctx: assay.Context) -> None:
    raise ExceptionGroup("both", [assay.Failure("one"), ExceptionGroup("deep", [ZeroDivisionError("by 0")])])


async def time_out(ctx: assay.Context) -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(10)


async def unreadable_result(ctx: assay.Context) -> Any:
    return object()


async def unprintable(ctx: assay.Context) -> None:
    raise Unprintable


async def bad_argument(ctx: assay.Context) -> None:
    await ctx.execute_activity("x", max_attempts="many")  # type: ignore[call-overload]


async def refused_command(ctx: assay.Context) -> None:
    ctx.upsert_search_attributes({"note": "x" * 5_000})
    await ctx.sleep(10)


def blocking(ctx: assay.BlockingContext) -> None:
    ctx.run("step", lambda: None)
    raise AttributeError("none of that name")


FAILS = (fail, fail_in_group, leave)
WAITS: dict[Callable[..., Any], str] = {
    mixed_group: "ExceptionGroup: both (2 sub-exceptions): ZeroDivisionError: by 0",
    time_out: "TimeoutError",
    unreadable_result: "Invalid: result",
    unprintable: "Unprintable: a",
    bad_argument: "max_attempts",
    refused_command: "note",
    blocking: "AttributeError: none of that name",
}


def test_which_exceptions_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # One of them logs a lone surrogate, which the report of a parallel test run cannot carry.
    monkeypatch.setattr(logging.getLogger("assay.worker"), "disabled", True)
    app = App()
    for function in (*FAILS, *WAITS):
        app.workflow(function.__name__, function)

    async def scenario(client: Client) -> None:
        async with serving(client, app, errors="wait"):
            for function in (*FAILS, *WAITS):
                await client.start(function.__name__, workflow_id=function.__name__)
            for function in FAILS:
                assert (await settled(client, function.__name__)).status == "FAILED", function
            for function, words in WAITS.items():
                record = await settled(client, function.__name__)
                assert (record.status, record.stuck["reason"]) == ("RUNNING", "task_failed"), function
                assert words in record.stuck["message"]

    on(f"sqlite://{tmp_path}/app.db", scenario)


def test_cancels_and_continue_as_new_do_not_wait(tmp_path: Path):
    app = App()

    @app.workflow
    async def asked(ctx: assay.Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.wait_for_signal("never"))

    @app.workflow
    async def cancels_itself(ctx: assay.Context) -> None:
        ctx.cancel("enough")

    @app.workflow
    async def continues(ctx: assay.Context, n: int) -> str:
        if n:
            async with asyncio.TaskGroup() as group:
                group.create_task(go_on(ctx))
        return "end"

    async def go_on(ctx: assay.Context) -> None:
        ctx.continue_as_new(0)

    async def scenario(client: Client) -> None:
        async with serving(client, app, errors="wait"):
            handle = await client.start("asked", workflow_id="asked")
            while (await client.explain("asked")).waiting_on.signal is None:
                await asyncio.sleep(0.02)
            await handle.cancel("no more")
            await client.start("cancels_itself", workflow_id="cancels_itself")
            for name in ("asked", "cancels_itself"):
                assert (await settled(client, name)).status == "CANCELLED"
            assert await client.run("continues", 1, workflow_id="continues") == "end"

    on(f"sqlite://{tmp_path}/app.db", scenario)


def test_a_definition_goes_before_its_worker(tmp_path: Path):
    app = App()

    async def broken(ctx: assay.Context) -> None:
        raise LookupError("gone")

    for choice in (None, "fail", "wait"):
        app.workflow(f"own-{choice}", _copy(broken), errors=choice)

    async def scenario(client: Client) -> None:
        for errors, waiting in (("fail", {"own-wait"}), ("wait", {"own-None", "own-wait"})):
            async with serving(client, app, errors=errors):
                for name in app.workflows:
                    await client.start(name, workflow_id=f"{errors}/{name}")
                    record = await settled(client, f"{errors}/{name}")
                    assert (record.status == "RUNNING") is (name in waiting), (errors, name)

    on(f"sqlite://{tmp_path}/app.db", scenario)


def _copy(function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def copied(ctx: assay.Context) -> None:
        await function(ctx)

    return copied


def test_other_choices_are_refused(tmp_path: Path):
    app = App()
    for wrong in ("ignore", "", True, ["wait"]):
        with pytest.raises(assay.Invalid, match="it can be fail or wait") as caught:
            app.workflow(errors=wrong)  # type: ignore[call-overload]
        assert caught.value.field == "errors"

    async def scenario(client: Client) -> None:
        with pytest.raises(assay.Invalid, match="it can be fail or wait"):
            Worker(client, errors="later")

    on(f"sqlite://{tmp_path}/app.db", scenario)
