"""How activities, steps and workflows fail, and how often they are tried; the same on each engine and store."""

import uuid
from typing import Any

import pytest

import assay
from assay import App, Client
from tests.http.scenarios import on, serving

RETRIES: dict[str, Any] = {"max_attempts": 3, "initial_interval_secs": 0.001}


async def failure_of(client: Client, app: App, workflow: str) -> assay.WorkflowFailed:
    """Serve a workflow until it has failed, and return what its caller gets."""
    async with serving(client, app):
        with pytest.raises(assay.WorkflowFailed) as raised:
            await client.run(workflow, workflow_id=f"w-{uuid.uuid4().hex}", task_queue=app.queue)
    return raised.value


def new_app() -> App:
    return App(queue=f"q-{uuid.uuid4().hex}")


def test_a_result_that_cannot_be_recorded_is_not_tried_again(url: str):
    app, ran = new_app(), []

    @app.activity
    def charge(_: Any) -> Any:
        ran.append("charge")
        return {"raw": object()}

    @app.activity
    async def read(_: Any) -> Any:
        ran.append("read")
        return "x" * (3 * 1024 * 1024)

    @app.workflow
    async def Buy(ctx: assay.Context) -> list[Any]:
        found: list[Any] = []
        for call in (
            lambda: ctx.execute_activity(charge, 1, **RETRIES),
            lambda: ctx.execute_activity(read, 1, **RETRIES),
            lambda: ctx.run("step", lambda: ran.append("step") or {1: object()}, **RETRIES),
        ):
            try:
                await call()
            except assay.ActivityError as error:
                found.append([str(error.kind), error.attempts, error.retryable])
        return found

    async def scenario(client: Client) -> None:
        async with serving(client, app):
            name = f"w-{uuid.uuid4().hex}"
            assert await client.run("Buy", workflow_id=name, task_queue=app.queue) == [["INVALID", 1, False]] * 3
        assert ran == ["charge", "read", "step"]

    on(url, scenario)


def test_a_workflow_whose_result_cannot_be_recorded_is_not_tried_again(url: str):
    app, ran = new_app(), []

    @app.workflow
    async def Buy(ctx: assay.Context) -> Any:
        ran.append("Buy")
        return object()

    async def scenario(client: Client) -> None:
        async with serving(client, app):
            retry = assay.Retry(max_attempts=3, initial_interval=0.001)
            name = f"w-{uuid.uuid4().hex}"
            with pytest.raises(assay.WorkflowFailed, match="object is not a JSON value") as raised:
                await client.run("Buy", workflow_id=name, task_queue=app.queue, retry_policy=retry)
        assert (raised.value.kind, ran) == ("INVALID", ["Buy"])

    on(url, scenario)


def test_a_kind_of_ones_own_is_kept_as_type_and_can_be_listed(url: str):
    app, ran = new_app(), []

    @app.activity
    def charge(_: Any) -> None:
        ran.append("charge")
        raise assay.Failure("no", kind="Declined")

    @app.workflow
    async def Buy(ctx: assay.Context) -> None:
        await ctx.execute_activity(charge, 1, **RETRIES, non_retryable=["Declined"])

    async def scenario(client: Client) -> None:
        error = await failure_of(client, app, "Buy")
        assert (error.kind, error.type, ran) == ("UNKNOWN", "Declined", ["charge"])

    on(url, scenario)
