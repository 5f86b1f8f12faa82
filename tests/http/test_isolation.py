"""Namespaces, queues and types keep apart; hands are as many as a worker says; a token is worth what it names."""

import asyncio
import uuid
from typing import Any

import aiohttp
import msgspec
import pytest

import assay
from assay import App, Client, Worker
from assay.core.model.payload import Payload
from assay.sdk.worker.engine_worker import EngineWorker
from assay.worker_protocol import messages as wire
from tests.http.bare import JSON, Bare
from tests.http.processes import Server


def app_of(seen: list[str], name: str, queue: str = "default") -> App:
    app = App(queue=queue)

    @app.activity
    async def tell(ctx: assay.ActivityContext, workflow_id: str) -> str:
        seen.append(f"{ctx.info().namespace} {ctx.info().workflow_id}")
        return name

    @app.workflow
    async def Tell(ctx: assay.Context, _: Any) -> str:
        seen.append(f"{ctx.info().namespace} {ctx.info().workflow_id}")
        return await ctx.execute_activity(tell, ctx.info().workflow_id)

    return app


def test_two_namespaces_never_cross(engine: Server):
    seen: dict[str, list[str]] = {"ns-a": [], "ns-b": []}

    async def serve(namespace: str, ready: asyncio.Barrier) -> list[str]:
        app = app_of(seen[namespace], namespace)
        async with await Client.connect(engine.url, namespace=namespace, app=app) as client:
            worker = Worker(client)
            running = asyncio.create_task(worker.run())
            await ready.wait()
            found = await asyncio.gather(*(client.run("Tell", workflow_id=f"same-{n}") for n in range(40)))
            await ready.wait()
            worker.stop()
            await running
            return found

    async def main() -> list[list[str]]:
        ready = asyncio.Barrier(2)
        return await asyncio.gather(serve("ns-a", ready), serve("ns-b", ready))

    assert asyncio.run(main()) == [["ns-a"] * 40, ["ns-b"] * 40]
    for namespace, lines in seen.items():
        assert len(lines) == 80
        assert all(line.startswith(f"{namespace} ") for line in lines)


def test_work_goes_to_workers_of_its_queue_and_type(engine: Server):
    queue = f"q-{uuid.uuid4().hex[:6]}"
    only_workflows, only_activities, elsewhere = App(queue=queue), App(queue=queue), App(queue=f"{queue}-other")

    @only_workflows.workflow
    async def Split(ctx: assay.Context, n: int) -> int:
        return int(await ctx.execute_activity("triple", n))

    @only_activities.activity
    async def triple(n: int) -> int:
        return 3 * n

    @elsewhere.activity(name="triple")
    async def wrong(n: int) -> int:
        return -1

    async def main() -> list[int]:
        async with await Client.connect(engine.url, app=only_workflows) as client:
            workers = [Worker(client, app=app) for app in (elsewhere, only_activities, only_workflows)]
            running = [asyncio.create_task(worker.run()) for worker in workers]
            found = await asyncio.gather(*(client.run("Split", n) for n in range(20)))
            for worker in workers:
                worker.stop()
            await asyncio.gather(*running)
            return found

    assert asyncio.run(main()) == [3 * n for n in range(20)]


@pytest.mark.parametrize("max_activities", [1, 4])
def test_a_worker_never_has_more_in_hand_than_it_said(engine: Server, max_activities: int):
    app = App(queue=f"q-{uuid.uuid4().hex[:6]}")
    busy, most = 0, 0

    @app.activity
    async def careful(_: int) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.01)
        busy -= 1

    @app.workflow
    async def Wide(ctx: assay.Context, n: int) -> int:
        await asyncio.gather(*(ctx.execute_activity(careful, k) for k in range(n)))
        return n

    async def main() -> None:
        async with await Client.connect(engine.url, app=app) as client:
            options = Worker(client, max_concurrent_activities=max_activities).options
            worker = EngineWorker(client.transport, app, options)  # type: ignore[arg-type]
            running = asyncio.create_task(worker.run())
            assert await asyncio.gather(*(client.run("Wide", 10) for _ in range(4))) == [10] * 4
            assert (worker.slots.tasks, worker.slots.activities) == (256, max_activities)
            worker.stop()
            await running

    asyncio.run(main())
    assert most == max_activities


def test_a_token_is_worth_what_it_names_and_no_more(engine: Server):
    queue = f"q-{uuid.uuid4().hex[:6]}"

    async def main() -> None:
        async with aiohttp.ClientSession() as session, await Client.connect(engine.url) as client:
            owner, thief, stranger = (
                Bare(session, engine.url),
                Bare(session, engine.url),
                Bare(session, engine.url, "elsewhere"),
            )
            await owner.greet(queue)
            handle = await client.start("Any", workflow_id=f"t-{uuid.uuid4()}", task_queue=queue)
            task = await owner.task()
            for other in (thief, stranger):
                await other.greet(f"{queue}-x")

            async def problem(who: Bare, number: int, token: str, **fields: Any) -> str | None:
                message = await who.exchange(reports=(wire.AdvanceReport(number, token, task.last_seq, **fields),))
                (answer,) = message.answers
                return None if answer.problem is None else answer.problem.code

            done = (assay.core.model.commands.CompleteWorkflow(Payload(b'"stolen"')),)
            swapped = "A" if task.token[-10] != "A" else "B"
            forged = task.token[:-10] + swapped + task.token[-9:]
            for number, (who, token) in enumerate(
                [(thief, task.token), (stranger, task.token), (owner, forged), (owner, ""), (owner, "x" * 5000)], 1
            ):
                assert await problem(who, number, token, commands=done) == "unknown_task"
            # the right token, as one for an activity
            message = await owner.exchange(reports=(wire.CompleteActivityReport(90, task.token, Payload(b"1")),))
            assert message.answers[0].problem is not None
            assert message.answers[0].problem.code == "unknown_task"
            assert (await handle.describe()).status == "RUNNING"
            right = (assay.core.model.commands.CompleteWorkflow(Payload(b'"mine"')),)
            assert await problem(owner, 91, task.token, commands=right) is None
            assert await handle.result() == "mine"
            # the same number again is answered alike, another one is too late
            assert await problem(owner, 91, task.token, commands=right) is None
            assert await problem(owner, 92, task.token, commands=right) == "run_closed"

    import assay.core.model.commands

    asyncio.run(main())


def test_messages_that_are_none_are_refused_with_a_sentence(engine: Server):
    async def main() -> None:
        async with aiohttp.ClientSession() as session:
            bare = Bare(session, engine.url)
            status, body = await bare.post_message()
            assert (status, body["code"]) == (404, "unknown_worker")  # type: ignore[index]
            for raw, code in [
                (b"{", "invalid_json"),
                (b'{"reports":{"type":"advance","n":1}}', "wrong_shape"),
                (b'{"reports":["nonsense"]}', "wrong_shape"),
                (b'{"hello":{"queue":"q","namespace":"other"}}', "invalid"),
            ]:
                async with session.post(bare.url, data=raw, headers=JSON) as response:
                    answer = msgspec.json.decode(await response.read())
                    assert response.status in (400, 422)
                    assert answer["code"] == code, answer

    asyncio.run(main())


def test_a_page_of_another_site_cannot_open_a_websocket(engine: Server):
    async def main() -> None:
        async with aiohttp.ClientSession() as session:
            url = f"{engine.url}/api/v1/workers/w-1/exchange"
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(url, headers={"origin": "https://evil.example"})
            assert caught.value.status == 403
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(f"{engine.url}/api/v1/workflows")

    asyncio.run(main())
