"""Handlers that do what nobody expects of them: their own run or attempt fails, and nobody else notices."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.grants import TaskGrant
from assay.sdk.execution.workflow_tasks import WorkflowTasks

Program = Callable[[assay.Client], Awaitable[Any]]


@asynccontextmanager
async def serving(client: assay.Client) -> AsyncIterator[assay.Worker]:
    worker = assay.Worker(client)
    running = asyncio.ensure_future(worker.run())
    await asyncio.sleep(0)
    try:
        yield worker
    finally:
        worker.stop()
        await running


def served(folder: Path, app: assay.App, program: Program) -> Any:
    """What a program gets from a client whose app is served."""

    async def main() -> Any:
        async with await assay.Client.connect(f"sqlite://{folder}/odd.db", app=app) as client, serving(client):
            return await asyncio.wait_for(program(client), 30)

    return asyncio.run(main())


async def failure_of(client: assay.Client, workflow: str, input: Any = None) -> assay.Failure:
    with pytest.raises(assay.WorkflowFailed) as raised:
        await (await client.start(workflow, input=input)).result()
    return raised.value


def app_with(workflow: Callable[..., Any], *activities: Callable[..., Any]) -> assay.App:
    app = assay.App()
    app.workflow("Odd", workflow)
    app.workflow("Good", good)
    for activity in activities:
        app.activity(activity)
    return app


async def good(ctx: assay.Context, number: int) -> int:
    await ctx.sleep(0.01)
    return number


async def beside_good_ones(client: assay.Client) -> tuple[list[int], assay.Failure]:
    """An odd run in the middle of ten good ones, all given to the worker at once."""
    started = await asyncio.gather(
        *(client.start("Odd" if number == 3 else "Good", f"run-{number}", number) for number in range(10))
    )
    odd = started.pop(3)
    results = await asyncio.gather(*(handle.result() for handle in started))
    with pytest.raises(assay.WorkflowFailed) as raised:
        await odd.result()
    return results, raised.value


def test_a_failure_whose_message_is_no_text_harms_nobody_else(tmp_path: Path):
    async def odd(ctx: assay.Context, number: int) -> None:
        raise assay.Failure(ValueError("boom"), retryable=0)  # type: ignore[arg-type]

    results, failure = served(tmp_path, app_with(odd), beside_good_ones)
    assert results == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert (failure.message, failure.retryable) == ("boom", False)


def test_a_worker_that_fails_over_one_task_does_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    take = WorkflowTasks.take
    failed: list[str] = []

    def broken(tasks: WorkflowTasks, grant: TaskGrant) -> None:
        if grant.key.workflow_id == "run-3" and not failed:
            failed.append(grant.key.workflow_id)
            raise LookupError("broken in here")
        take(tasks, grant)

    async def odd(ctx: assay.Context, number: int) -> None:
        raise ValueError("as usual")

    monkeypatch.setattr(WorkflowTasks, "take", broken)
    results, failure = served(tmp_path, app_with(odd), beside_good_ones)
    assert len(results) == 9
    assert failed == ["run-3"]
    assert failure.message == "as usual"
