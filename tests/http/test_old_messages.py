"""A message of a worker is heard once, and not after a later hello: the network may keep it and repeat it."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from assay import Client
from assay.worker_protocol import messages as wire
from tests.http.bare import Bare
from tests.http.processes import Server

SLOTS = 5


def talking(engine: Server, talk: Callable[[Bare, Client, str], Awaitable[None]]) -> None:
    async def main() -> None:
        queue = f"q-{uuid.uuid4().hex[:6]}"
        async with aiohttp.ClientSession() as session, await Client.connect(engine.url) as client:
            await talk(Bare(session, engine.url), client, queue)

    asyncio.run(main())


async def code(response: Awaitable[tuple[int, Any]]) -> tuple[int, str]:
    status, body = await response
    return status, body["code"]


def test_a_message_that_comes_twice_takes_no_work_away(engine: Server):
    async def talk(bare: Bare, client: Client, queue: str) -> None:
        hello = wire.Hello(queue=queue, free_tasks=SLOTS)
        await bare.exchange(number=1, hello=hello)
        await client.start("Any", workflow_id=queue, task_queue=queue)
        assert await code(bare.post_message(number=1, hello=hello)) == (409, "old_message")
        message = await bare.exchange(number=2, wait_secs=5)
        assert await code(bare.post_message(number=2, wait_secs=5)) == (409, "old_message")
        assert [task.workflow_id for task in message.tasks] == [queue]

    talking(engine, talk)


def test_messages_may_overtake_each_other(engine: Server):
    async def talk(bare: Bare, _: Client, queue: str) -> None:
        await bare.exchange(number=7, hello=wire.Hello(queue=queue))
        for number in (9, 8, 11, 10):
            await bare.exchange(number=number)
        for number in (8, 9, 10, 11):
            assert await code(bare.post_message(number=number)) == (409, "old_message")

    talking(engine, talk)


def test_what_was_said_before_the_last_hello_is_not_heard(engine: Server):
    """Its count of free hands is from before: believed, it would bring the worker more than it can hold."""

    async def talk(bare: Bare, client: Client, queue: str) -> None:
        await bare.exchange(number=1, hello=wire.Hello(queue=queue, free_tasks=1))
        await bare.exchange(number=3, hello=wire.Hello(queue=queue, free_tasks=1, again=True))
        assert await code(bare.post_message(number=2, freed=(SLOTS, 0))) == (409, "old_message")
        assert await code(bare.post_message(number=2, hello=wire.Hello(queue=queue, free_tasks=SLOTS))) == (
            409,
            "old_message",
        )
        for number in range(SLOTS):
            await client.start("Any", workflow_id=f"{queue}-{number}", task_queue=queue)
        message = await bare.exchange(number=4, wait_secs=5)
        assert len(message.tasks) == 1
        assert (await bare.exchange(number=5, wait_secs=0.3)).tasks == []

    talking(engine, talk)


def test_a_worker_that_does_not_count_is_heard(engine: Server):
    async def talk(bare: Bare, _: Client, queue: str) -> None:
        await bare.greet(queue)
        for _number in range(3):
            await bare.exchange()

    talking(engine, talk)
