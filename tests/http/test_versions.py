"""New code for open runs: the same in a program and behind a server, on SQLite and on Postgres."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from assay import DEFAULT_VERSION, App, Client, Context, Worker

SECONDS = 60
Code = Callable[[Context], Any]


async def old(ctx: Context) -> Any:
    await ctx.run("begin", lambda: 1)
    await ctx.wait_for_signal("go")
    return "old"


def versioned(minimum: int, maximum: int, change: str) -> Code:
    async def code(ctx: Context) -> Any:
        first = ctx.version(change, minimum, maximum)
        await ctx.run("begin", lambda: 1)
        await ctx.wait_for_signal("go")
        return [first, ctx.version(change, minimum, maximum), ctx.version(f"{change}-late", DEFAULT_VERSION, 3)]

    return code


def removed(change: str) -> Code:
    async def code(ctx: Context) -> Any:
        await ctx.run("begin", lambda: 1)
        await ctx.wait_for_signal("go")
        return [ctx.version(f"{change}-late", DEFAULT_VERSION, 9)]

    return code


class Shop:
    """One workflow id and queue, served by one deployment after the other."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.name = f"order-{uuid.uuid4().hex[:8]}"

    async def start(self, name: str | None = None) -> None:
        await self.client.start("Order", workflow_id=name or self.name, task_queue=self.name)

    async def deployed(self, code: Code, until: str, name: str | None = None) -> Any:
        app = App(queue=self.name)
        app.workflow("Order", code)
        worker = Worker(self.client, app=app)
        serving = asyncio.create_task(worker.run())
        while (value := (await self.client.describe(name or self.name))[until]) is None or (
            until == "waiting_on" and not await self._waits_for_signal(name or self.name)
        ):
            await asyncio.sleep(0.01)
        worker.stop()
        await serving
        return value

    async def _waits_for_signal(self, name: str) -> bool:
        return any(one["event_type"] == "WorkflowAwaitingSignal" for one in await self.client.get_events(name))

    async def go(self, name: str | None = None) -> None:
        await self.client.signal(name or self.name, "go")

    async def found(self, change_version: str) -> list[str]:
        return [record.id async for record in self.client.list(change_version=change_version)]


def scenario(function: Callable[[Shop], Any]) -> Callable[[str], None]:
    def test(url: str) -> None:
        async def main() -> None:
            async with asyncio.timeout(SECONDS), await Client.connect(url, app=App()) as client:
                await function(Shop(client))

        asyncio.run(main())

    test.__name__ = function.__name__
    return test


@scenario
async def test_open_runs_keep_the_old_way_and_new_ones_take_the_new(shop: Shop) -> None:
    await shop.start()
    await shop.deployed(old, "waiting_on")
    newer = f"{shop.name}-2"
    await shop.start(newer)
    code = versioned(DEFAULT_VERSION, 1, shop.name)
    await shop.deployed(code, "waiting_on", newer)
    await shop.go()
    assert await shop.deployed(code, "result") == [-1, -1, 3]
    await shop.go(newer)
    assert await shop.deployed(versioned(DEFAULT_VERSION, 2, shop.name), "result", newer) == [1, 1, 3]
    assert await shop.found(shop.name) == await shop.found(f"{shop.name}:1") == [newer]
    assert await shop.found(f"{shop.name}:2") == []
    assert sorted(await shop.found(f"{shop.name}-late:3")) == [shop.name, newer]
    kinds = [event["event_type"] for event in await shop.client.get_events(newer)]
    assert kinds.count("VersionRecorded") == 2


@scenario
async def test_an_unsupported_version_is_stuck_until_code_comes_that_supports_it(shop: Shop) -> None:
    await shop.start()
    await shop.deployed(old, "waiting_on")
    await shop.go()
    stuck = await shop.deployed(versioned(1, 2, shop.name), "stuck")
    assert stuck["reason"] == "unsupported_version"
    assert f"'{shop.name}'" in stuck["message"]
    record = await shop.client.describe(shop.name)
    assert record is not None
    assert record.status == "RUNNING"
    assert await shop.deployed(versioned(DEFAULT_VERSION, 2, shop.name), "result") == [-1, -1, 3]


@scenario
async def test_a_call_may_be_removed(shop: Shop) -> None:
    await shop.start()
    await shop.deployed(versioned(1, 1, shop.name), "waiting_on")
    await shop.go()
    assert await shop.deployed(removed(shop.name), "result") == [9]


@scenario
async def test_a_reopened_run_keeps_its_versions_and_has_the_default_where_the_copy_had_none(shop: Shop) -> None:
    def code(change: int, *, broken: bool) -> Code:
        async def order(ctx: Context) -> Any:
            found = [ctx.version(f"{shop.name}-a", DEFAULT_VERSION, 1)]
            await ctx.run("one", lambda: 1)
            if change:
                found.append(ctx.version(f"{shop.name}-b", DEFAULT_VERSION, change))
            await ctx.execute_activity("work", max_attempts=1, task_queue=f"{shop.name}-nobody", schedule_to_start=0.05)
            return found

        async def fixed(ctx: Context) -> Any:
            found = [ctx.version(f"{shop.name}-a", DEFAULT_VERSION, 5)]
            await ctx.run("one", lambda: 1)
            found.append(ctx.version(f"{shop.name}-b", DEFAULT_VERSION, change))
            await ctx.wait_for_signal("go")
            return [*found, ctx.version(f"{shop.name}-c", DEFAULT_VERSION, change)]

        return order if broken else fixed

    await shop.start()
    await shop.deployed(code(0, broken=True), "failure")
    await shop.client.retry(shop.name, reason="fixed")
    await shop.go()
    assert await shop.deployed(code(2, broken=False), "result") == [1, -1, 2]
