"""Several arguments, and the types of search attributes: the same in a program and behind a server."""

import asyncio
import dataclasses
import datetime
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from assay import ActivityContext, App, BlockingContext, Client, Context, Invalid, Worker, WorkflowFailed

SECONDS = 60


@dataclasses.dataclass
class Item:
    name: str
    price: int = 1


def shop(queue: str) -> App:
    app = App(queue=queue)

    @app.activity
    def add(one: int, two: int, *more: int) -> int:
        return one + two + sum(more)

    @app.activity
    async def scaled(ctx: ActivityContext, item: Item, times: int = 2) -> Any:
        return [item.name, item.price * times, ctx.info().attempt]

    @app.workflow
    async def Two(ctx: Context, item: Item, count: int, note: str = "none") -> Any:
        return [item.name, count, note]

    @app.workflow
    async def One(ctx: Context, value: Any) -> Any:
        return value

    @app.workflow
    async def Rest(ctx: Context, *values: Any) -> Any:
        return list(values)

    @app.workflow
    def Blocking(ctx: BlockingContext, one: int, *, two: int = 5) -> Any:
        return [one, two]

    @app.workflow
    async def Calls(ctx: Context) -> Any:
        return [
            await ctx.execute_activity(add, args=[1, 2]),
            await ctx.execute_activity("add", args=[1, 2, 3, 4]),
            await ctx.execute_activity(scaled, Item("pen", 3)),
            await ctx.execute_activity(scaled, args=[Item("ink", 3), 4]),
            await ctx.execute_parallel([("add", None, {"args": [5, 6]})]),
        ]

    @app.workflow
    async def Again(ctx: Context, *values: int) -> Any:
        if len(values) < 3:
            ctx.continue_as_new(*values, len(values))
        if len(values) == 3:
            ctx.continue_as_new({"$args": [1]}, type=One)
        return values

    @app.workflow
    async def Attributes(ctx: Context) -> None:
        at = datetime.datetime(2026, 5, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
        ctx.attrs(
            search={"status": "paid", "n": 5, "share": 0.5, "vip": True, "at": at, "tags": ["a", "b"]}, memo={"x": {}}
        )
        ctx.attrs(search={"vip": None}, memo={"note": [1, {"deep": None}]})

    return app


def scenario(function: Callable[[Client, str], Any]) -> Callable[[str], None]:
    def test(url: str) -> None:
        async def main() -> None:
            queue = f"shop-{uuid.uuid4().hex[:8]}"
            async with asyncio.timeout(SECONDS), await Client.connect(url, app=shop(queue)) as client:
                worker = Worker(client)
                serving = asyncio.create_task(worker.run())
                try:
                    await function(client, queue)
                finally:
                    worker.stop()
                    await serving

        asyncio.run(main())

    test.__name__ = function.__name__
    return test


async def recorded(client: Client, name: str) -> Any:
    record = await client.describe(name)
    assert record is not None
    return record.input


@scenario
async def test_several_arguments_are_packed_and_decoded_by_their_annotations(client: Client, name: str) -> None:
    assert await client.run("Two", args=[Item("pen"), 2], workflow_id=name) == ["pen", 2, "none"]
    assert await recorded(client, name) == {"$args": [{"name": "pen", "price": 1}, 2]}
    assert await client.run("Two", args=[{"name": "ink"}, 2, "fast"]) == ["ink", 2, "fast"]
    assert await client.run("Rest", args=[1, None, "x"]) == [1, None, "x"]
    assert await client.run("Rest") == []
    assert await client.run("Rest", 7) == [7]
    assert await client.run("Blocking", args=[1, 2]) == [1, 2]
    assert await client.run("Blocking", 1) == [1, 5]


@scenario
async def test_one_argument_is_its_bare_value_unless_it_looks_packed(client: Client, name: str) -> None:
    odd = {"$args": [1, 2]}
    for number, (given, as_input) in enumerate([([7], 7), ([], None), ([None], None), ([odd], {"$args": [odd]})]):
        one = f"{name}-{number}"
        assert await client.run("One", args=given, workflow_id=one) == (given[0] if given else None)
        assert await recorded(client, one) == as_input
    assert await client.run("One", odd) == odd
    assert await client.run("One", {"$args": 1, "x": 2}) == {"$args": 1, "x": 2}


@scenario
async def test_a_wrong_number_of_arguments_fails_the_run(client: Client, name: str) -> None:
    for type_, args in (("One", [1, 2]), ("Two", [{"name": "pen"}]), ("Two", [{"name": "a"}, 1, "b", 4]), ("Two", [])):
        with pytest.raises(WorkflowFailed) as caught:
            await client.run(type_, args=args)
        assert caught.value.kind == "INVALID", (type_, args)
        assert "arguments" in caught.value.message


@scenario
async def test_activities_take_several_arguments_by_args(client: Client, name: str) -> None:
    expected = [3, 10, ["pen", 6, 1], ["ink", 12, 1], [11]]
    assert await client.run("Calls", workflow_id=name) == expected


@scenario
async def test_the_next_run_takes_several_arguments(client: Client, name: str) -> None:
    assert await client.run("Again", workflow_id=name) == {"$args": [1]}
    runs = await client.list_runs(name)
    inputs = [record.input for record in sorted(runs, key=lambda record: record.created_at)]
    assert inputs == [None, 0, {"$args": [0, 1]}, {"$args": [0, 1, 2]}, {"$args": [{"$args": [1]}]}]


@scenario
async def test_attributes_have_types_that_filters_find(client: Client, name: str) -> None:
    await client.run("Attributes", workflow_id=name)
    record = await client.describe(name)
    assert record is not None
    expected = {"status": "paid", "n": 5, "share": 0.5, "at": "2026-05-01T12:00:00Z", "tags": ["a", "b"]}
    assert record.search_attributes == expected
    assert record.memo == {"x": {}, "note": [1, {"deep": None}]}
    at = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
    for wanted in ({"at": at}, {"n": 5.0}, {"tags": ["b"]}, {"share": 0.5}):
        found = [one.id async for one in client.list(search_attrs=wanted)]
        assert name in found, wanted


@pytest.mark.parametrize(
    ("attributes", "field"),
    [
        ({"x": {"nested": 1}}, "search_attributes.x"),
        ({"x": [1]}, "search_attributes.x"),
        ({"x": ["a", 1]}, "search_attributes.x"),
        ({"x": b"a"}, "search_attributes.x"),
        ({"x": {1}}, "search_attributes.x"),
        ({"x": float("inf")}, "search_attributes.x"),
        ({"x": datetime.datetime(2026, 1, 1)}, "search_attributes.x"),  # noqa: DTZ001  # has no time zone on purpose
        ({7: "x"}, "search_attributes"),
        ("x", "search_attributes"),
    ],
)
@pytest.mark.parametrize("call", ["start", "schedule"])
def test_other_types_are_refused(url: str, attributes: Any, field: str, call: str):
    async def main() -> None:
        async with await Client.connect(url, app=App()) as client:
            create = client.schedules.create("daily", "Order", "0 0 0 * * *", search_attributes=attributes)
            start = client.start("Order", search_attributes=attributes)
            wanted, other = (start, create) if call == "start" else (create, start)
            other.close()
            with pytest.raises(Invalid) as caught:
                await wanted
            assert caught.value.field == field

    asyncio.run(main())
