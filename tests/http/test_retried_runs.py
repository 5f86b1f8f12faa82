"""Runs that are retried with fixed code: the same in a program on SQLite or Postgres, and behind HTTP."""

import asyncio
import getpass
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assay import App, AssayError, CancelRequested, Client, Context, Handle, Worker, WorkflowCancelled, WorkflowFailed
from tests.http.processes import server

SECONDS = 60


class Shop:
    """Workflows whose code has a bug until it is fixed, and activities that count how often they run."""

    def __init__(self) -> None:
        self.fixed = False
        self.done: list[str] = []
        self.app = App()
        self.app.activity("work", self.work)
        for workflow in (self.Order, self.Stubborn, self.Parent, self.Child, self.Starter, self.Itself, self.Waiting):
            self.app.workflow(workflow.__name__, self._bound(workflow))

    def _bound(self, workflow: Callable[..., Coroutine[Any, Any, Any]]) -> Any:
        async def run(ctx: Context, input: Any = None) -> Any:
            return await workflow(ctx, input)

        return run

    async def work(self, name: str) -> str:
        self.done.append(name)
        if name == "broken" and not self.fixed:
            raise ValueError("broken")
        return name

    async def Order(self, ctx: Context, _: Any) -> list[str]:
        """A failure that is caught, work after it, and a mistake in the code after that."""
        found = []
        for name in ("broken", "one", "two"):
            try:
                found.append(await ctx.execute_activity("work", name, max_attempts=1))
            except AssayError:
                found.append("caught")
        if not self.fixed:
            raise NameError("a mistake")
        return found

    async def Stubborn(self, ctx: Context, _: Any) -> str:
        return str(await ctx.execute_activity("work", "broken", max_attempts=1))

    async def Parent(self, ctx: Context, input: Any) -> Any:
        children = [
            asyncio.ensure_future(
                ctx.start_child_workflow(
                    "Child", workflow_id=f"{ctx.info().workflow_id}.{number}", input=input - 1,
                    parent_close_policy=("terminate", "request_cancel")[number % 2],
                )
            )
            for number in range(2)
        ]  # fmt: skip
        return [await child for child in children]

    async def Child(self, ctx: Context, input: Any) -> Any:
        await ctx.execute_activity("work", "begin", max_attempts=1)
        below = await self.Parent(ctx, input) if input else []
        return [await ctx.wait_for_signal("go"), below]

    async def Starter(self, ctx: Context, _: Any) -> Any:
        for number, policy in enumerate(("abandon", "terminate")):
            name = f"{ctx.info().workflow_id}.{number}"
            waiting = ctx.start_child_workflow("Waiting", workflow_id=name, input=1, parent_close_policy=policy)
            task = asyncio.ensure_future(waiting)
        await ctx.wait_for_signal("fail")
        if not self.fixed:
            raise NameError("a mistake")
        return await task

    async def Itself(self, ctx: Context, _: Any) -> str:
        await ctx.execute_activity("work", "one")
        if not self.fixed:
            ctx.cancel("not today")
        return "done"

    async def Waiting(self, ctx: Context, input: Any) -> Any:
        try:
            return [await ctx.wait_for_signal("go") for _ in range(input)]
        except CancelRequested:
            with ctx.shield():
                await ctx.execute_activity("work", "clean-up")
            raise


@pytest.fixture(params=["sqlite", "postgres", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        yield f"sqlite://{tmp_path}/retried.db"
    elif request.param == "postgres":
        yield request.getfixturevalue("postgres")
    else:
        with server(tmp_path, None) as engine:
            yield engine.url


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[tuple[Shop, Client]]:
    shop = Shop()
    async with asyncio.timeout(SECONDS), await Client.connect(url, app=shop.app) as client:
        worker = Worker(client)
        running = asyncio.create_task(worker.run())
        try:
            yield shop, client
        finally:
            worker.stop()
            await running


async def ended(handle: Handle[Any]) -> None:
    with pytest.raises((WorkflowFailed, WorkflowCancelled, AssayError)):
        await handle.result()


async def until(client: Client, workflow_id: str, kind: str, times: int = 1) -> None:
    """Wait until the newest run of an id has an event of this kind."""
    while True:
        if await client.describe(workflow_id) is not None:
            events = await client.get_events(workflow_id)
            if sum(event["event_type"] == kind for event in events) >= times:
                return
        await asyncio.sleep(0.02)


def scenario(function: Callable[..., Any]) -> Callable[[str], None]:
    def test(url: str) -> None:
        async def main() -> None:
            async with serving(url) as (shop, client):
                await function(shop, client)

        asyncio.run(main())

    test.__name__ = function.__name__
    return test


@scenario
async def test_fixed_code_goes_on_and_undoes_no_finished_work(shop: Shop, client: Client) -> None:
    await ended(await client.start("Order", workflow_id="order"))
    record = await client.describe("order")
    assert record is not None
    assert (record["retryable"], record["retry_refusal"]) == (True, None)
    shop.fixed = True
    handle = await client.retry("order", reason="the mistake is fixed")
    assert await handle.result() == ["caught", "one", "two"]
    assert shop.done == ["broken", "one", "two"]
    start = (await client.get_events("order"))[0]
    assert (start["initiator"], start["previous_run_id"]) == ("reopen", record["run_id"])
    record = await client.describe("order")
    assert record is not None
    assert record["retryable"] is False
    assert "COMPLETED" in record["retry_refusal"]


@scenario
async def test_an_activity_that_ended_the_run_is_tried_again(shop: Shop, client: Client) -> None:
    await ended(await client.start("Stubborn", workflow_id="stubborn"))
    shop.fixed = True
    answer = await client._retry("stubborn", "it is back", None, None, None, None)
    assert (answer["status"], answer["activity"]["name"], answer["activity"]["attempt"]) == ("WAITING", "work", 1)
    assert (answer["dropped_events"], answer["invalidated_activities"]) == (2, 0)
    assert await client.result("stubborn") == "broken"
    assert shop.done == ["broken", "broken"]


@scenario
async def test_a_run_that_timed_out_gets_its_time_anew(shop: Shop, client: Client) -> None:
    handle = await client.start("Waiting", 2, workflow_id="late", run_timeout=0.3, execution_timeout=0.3)
    await handle.signal("go", 1)
    await ended(handle)
    again = await client.retry("late", reason="more time", requested_by="ada")
    record = await client.describe("late")
    assert record is not None
    assert (record["status"], record["execution_deadline"]) == ("RUNNING", None)
    await again.signal("go", 2)
    assert await again.result() == [1, 2]


@scenario
async def test_a_cancelled_run_goes_on_as_if_it_had_not_been(shop: Shop, client: Client) -> None:
    handle = await client.start("Waiting", 3, workflow_id="cancelled")
    await handle.signal("go", 1)
    await until(client, "cancelled", "WorkflowAwaitingSignal", 2)
    await handle.cancel("a mistake")
    await ended(handle)
    assert shop.done == ["clean-up"]
    answer = await client._retry("cancelled", "not cancelled", None, None, None, None)
    assert (answer["status"], answer["activity"], answer["invalidated_activities"]) == ("RUNNING", None, 1)
    assert answer["dropped_events"] == 4  # the request, the clean-up's two events, the end
    for number in (2, 3):
        await client.signal("cancelled", "go", number)
    assert await client.result("cancelled") == [1, 2, 3]


@scenario
async def test_a_run_that_cancelled_itself(shop: Shop, client: Client) -> None:
    await ended(await client.start("Itself", workflow_id="itself"))
    shop.fixed = True
    assert await (await client.retry("itself", reason="today")).result() == "done"
    assert shop.done == ["one"]


@scenario
async def test_signals_after_the_cut_are_kept_in_order(shop: Shop, client: Client) -> None:
    handle = await client.start("Waiting", 4, workflow_id="signalled")
    for number in range(3):
        await handle.signal("go", number)
    await handle.terminate("by mistake")
    await client.retry("signalled", reason="go on", from_seq=1)
    events = await client.get_events("signalled")
    assert [event["payload"]["payload"] for event in events if event["event_type"] == "SignalReceived"] == [0, 1, 2]
    await client.signal("signalled", "go", 3)
    assert await client.result("signalled") == [0, 1, 2, 3]


@scenario
async def test_a_family_goes_on_together(shop: Shop, client: Client) -> None:
    names = ["family.0", "family.1", *(f"family.{child}.{number}" for child in "01" for number in "01")]
    handle = await client.start("Parent", 2, workflow_id="family")
    for name in names:
        await until(client, name, "ActivityCompleted")
    await until(client, "family.0", "WorkflowAwaitingSignal", 0)
    await handle.terminate("by mistake")
    again = await client.retry("family", reason="go on")
    for name in names:
        record = await client.describe(name)
        assert record is not None
        assert (record["status"], record["cancel_requested"]) == ("RUNNING", False)
        await client.signal(name, "go", name)
    grown = [[f"family.{child}", [[f"family.{child}.{n}", []] for n in "01"]] for child in "01"]
    assert await again.result() == grown
    assert shop.done.count("begin") == len(names)


@scenario
async def test_a_child_that_completed_meanwhile_is_not_repeated(shop: Shop, client: Client) -> None:
    handle = await client.start("Parent", 1, workflow_id="parent")
    for number in range(2):
        await until(client, f"parent.{number}", "ActivityCompleted")
    await client.signal("parent.0", "go", "early")
    await until(client, "parent.0", "WorkflowCompleted")
    await handle.terminate()
    again = await client.retry("parent", reason="go on")
    await client.signal("parent.1", "go", "late")
    assert await again.result() == [["early", []], ["late", []]]
    assert len(await client.list_runs("parent.0")) == 1
    with pytest.raises(AssayError) as refused:
        await client.retry("parent.1", reason="alone")
    assert refused.value.code == "not_retryable"


@scenario
async def test_children_of_the_dropped_part(shop: Shop, client: Client) -> None:
    handle = await client.start("Starter", workflow_id="starter")
    for number in range(2):
        await until(client, f"starter.{number}", "WorkflowAwaitingSignal")
    await handle.signal("fail")
    await ended(handle)
    await until(client, "starter.1", "WorkflowTerminated")
    shop.fixed = True
    again = await client.retry("starter", reason="from the beginning", from_seq=1)
    await until(client, "starter", "ChildWorkflowStarted", 2)
    assert len(await client.list_runs("starter.0")) == 1  # it was open, and is adopted
    assert len(await client.list_runs("starter.1")) == 2  # it was closed, and begins anew
    for number in range(2):
        await client.signal(f"starter.{number}", "go", number)
    assert await again.result() == [1]
    await until(client, "starter", "ChildWorkflowCompleted", 1)


@scenario
async def test_what_is_refused(shop: Shop, client: Client) -> None:
    first = await client.start("Order", workflow_id="order")
    await ended(first)
    for seq in (0, -1, 1_000):
        with pytest.raises(AssayError) as refused:
            await client.retry("order", reason="x", from_seq=seq)
        assert refused.value.code == "bad_from_seq"
    with pytest.raises(AssayError) as refused:
        await client.retry("order", reason=" ")
    assert refused.value.code == "invalid"
    shop.fixed = True
    results = await asyncio.gather(*(client.retry("order", reason="x") for _ in range(2)), return_exceptions=True)
    assert sorted(isinstance(result, AssayError) for result in results) == [False, True]
    with pytest.raises(AssayError) as refused:
        await client.retry("order", reason="x", run_id=first.run_id)
    assert refused.value.code == "already_continued"
    await client.result("order")
    with pytest.raises(AssayError) as refused:
        await client.retry("order", reason="x")
    assert refused.value.code == "not_retryable"
    with pytest.raises(AssayError) as refused:
        await client.retry("nobody", reason="x")
    assert refused.value.code == "not_found"


def test_the_user_and_host_are_named_where_nobody_else_is(monkeypatch: pytest.MonkeyPatch):
    from assay.sdk.client.requester import requester

    assert requester().startswith(f"{getpass.getuser()}@")
    monkeypatch.setattr("getpass.getuser", lambda: {}["nobody"])
    assert requester().startswith("unknown@")
