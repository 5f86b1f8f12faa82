"""Messages between workflows: the same in a program and behind a server, on SQLite and on Postgres."""

import asyncio

from tests.http.message_workflows import address, fresh, working


def test_a_message_reaches_another_workflow_with_its_sender(url: str):
    async def play() -> None:
        async with working(url) as client:
            shop, name = fresh("shop"), fresh("sender")
            taken = await client.start("collect", 3, workflow_id=shop, task_queue="messages")
            orders = [[address(shop), "none"], [address(shop), "one", {"n": 1}], [address(shop), "two", 1, "b"]]
            sent = await client.run("sender", orders, workflow_id=name, task_queue="messages")
            assert sent == ["sent", "sent", "sent"]
            assert await taken.result() == [
                ["none", None, [], address(name), True],
                ["one", {"n": 1}, [{"n": 1}], address(name), True],
                ["two", [1, "b"], [1, "b"], address(name), True],
            ]

    asyncio.run(play())


def test_a_message_to_a_missing_target_or_a_reserved_topic_is_refused(url: str):
    async def play() -> None:
        async with working(url) as client:
            ended = fresh("ended")
            await client.run("sender", [], workflow_id=ended, task_queue="messages")
            orders = [
                [address(fresh("nobody")), "x"],
                [address(ended), "x"],
                ["wf://no-such-namespace/x", "x"],
                ["no address", "x"],
                [address(ended), "@exit"],
                [address(ended), ""],
            ]
            kinds = await client.run("sender", orders, task_queue="messages")
            assert kinds == ["NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "INVALID", "INVALID"]

    asyncio.run(play())


def test_messages_of_one_turn_arrive_in_order(url: str):
    async def play() -> None:
        async with working(url) as client:
            shop = fresh("shop")
            taken = await client.start("collect", 300, workflow_id=shop, task_queue="messages")
            order = {"to": address(shop), "count": 300}
            assert await client.run("burst", order, task_queue="messages") == 300
            assert [message[1] for message in await taken.result()] == list(range(300))

    asyncio.run(play())


def test_a_workflow_sends_to_itself(url: str):
    async def play() -> None:
        async with working(url) as client:
            assert await client.run("monologue", task_queue="messages") == [True, "note", {"to": "self"}, True]

    asyncio.run(play())


def test_messages_are_routed_to_the_listener_the_inbox_or_a_wait(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("router", workflow_id=fresh("router"), task_queue="messages")
            for topic, payload in (("order", 1), ("other", 2), ("go", 0), ("order", 3), ("late", 4)):
                await client.signal(handle.workflow_id, topic, payload)
            found = await handle.result()
            assert found == [0, 1, "other", ["order", 3], [None, False], 4, "invalid"]

    asyncio.run(play())


def test_replies_go_to_the_sender_of_a_message(url: str):
    async def play() -> None:
        async with working(url) as client:
            name = fresh("counter")
            counted = await client.start("counter", 10, workflow_id=name, task_queue="messages")
            order = {"to": address(name), "amounts": [1, "many", 2]}
            found = await client.run("customer", order, task_queue="messages")
            ok = [["ack", None], ["ok", {"value": 11}], ["nak", "not a number"], ["ack", None], ["ok", {"value": 13}]]
            assert found == ok
            assert (await counted.result())["final"] == 13

    asyncio.run(play())


def test_a_reply_to_nobody_is_no_error(url: str):
    async def play() -> None:
        async with working(url) as client:
            name = fresh("counter")
            counted = await client.start("counter", 0, workflow_id=name, task_queue="messages")
            await client.signal(name, "increment", 1)
            await client.signal(name, "finish")
            assert await counted.result() == {"final": 1, "replied": False}

    asyncio.run(play())


def test_a_blocking_workflow_has_the_same_verbs(url: str):
    async def play() -> None:
        async with working(url) as client:
            name = fresh("counter")
            counted = await client.start("counter", 0, workflow_id=name, task_queue="messages")
            found = await client.run("clerk", {"to": address(name)}, task_queue="messages")
            assert found == ["ack", "ok", [1, True, "mine"]]
            assert (await counted.result())["final"] == 5

    asyncio.run(play())


def test_no_message_is_lost_or_doubled_by_continue_as_new(url: str):
    async def play() -> None:
        async with working(url) as client:
            name = fresh("relay")
            relayed = await client.start("relay", {"count": 100, "found": []}, workflow_id=name, task_queue="messages")
            assert await client.run("burst", {"to": address(name), "count": 100}, task_queue="messages") == 100
            assert await relayed.result() == list(range(100))

    asyncio.run(play())
