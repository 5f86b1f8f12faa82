"""Results that do not fit their annotation, and what the exceptions of a failed run show."""

import asyncio
import dataclasses
import pickle
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.model.events import WorkflowCompleted
from assay.sdk.app import App

app = App()
calls: list[str] = []


@dataclasses.dataclass
class Receipt:
    number: int


@app.activity
def wrong_activity(order: str) -> str:
    calls.append(order)
    return 3  # type: ignore[return-value]


@app.activity(runs_in="process")
def wrong_in_process(order: str) -> Receipt:
    return {"number": order}  # type: ignore[return-value]


def wrong_step(order: str) -> list[int]:
    calls.append(order)
    return [order]  # type: ignore[list-item]


@app.activity
def loses_key(order: str) -> str:
    calls.append(order)
    return {}[order]


@app.workflow
async def wrong_result(ctx: assay.Context) -> str:
    return 3  # type: ignore[return-value]


@app.workflow
async def wrong_dataclass(ctx: assay.Context) -> Receipt:
    return Receipt("seven")  # type: ignore[arg-type]


@app.workflow
async def caller(ctx: assay.Context, name: str) -> list[Any]:
    """Return what is caught around a step or activity whose result does not fit."""
    try:
        if name == "step":
            await ctx.run("wrong", wrong_step, "o-1")
        else:
            await ctx.execute_activity(name, "o-1")
    except assay.ActivityError as error:
        return [error.kind, error.message, error.attempts]
    return []


@app.workflow
async def matching(ctx: assay.Context) -> list[Any]:
    try:
        await ctx.execute_activity(loses_key, "key", max_attempts=2, initial_interval=0.01)
    except assay.ActivityError as error:
        found = [error.matches(KeyError), error.matches("KeyError"), error.matches(ValueError, KeyError)]
        return [str(error), error.type, *found, error.matches(ValueError), error.matches(LookupError)]
    return []


@app.workflow
async def fails_by_key(ctx: assay.Context) -> None:
    {}["key"]


@app.workflow
async def fails_in_group(ctx: assay.Context) -> None:
    async def work() -> None:
        raise ValueError("out of stock")

    async with asyncio.TaskGroup() as group:
        group.create_task(work())


@pytest.fixture
def with_client(tmp_path: Path) -> Callable[[Callable[[assay.Client], Awaitable[Any]]], Any]:
    def run(program: Callable[[assay.Client], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with await assay.Client.connect(f"sqlite://{tmp_path}/app.db", app=app) as client:
                return await program(client)

        calls.clear()
        return asyncio.run(asyncio.wait_for(main(), 30))

    return run


@pytest.mark.parametrize(
    ("workflow", "problem"),
    [(wrong_result, "result: Expected str, got int"), (wrong_dataclass, "result.number: Expected int, got str")],
)
def test_a_result_that_does_not_fit_fails_the_run_and_is_not_recorded(with_client: Any, workflow: Any, problem: str):
    async def program(client: assay.Client) -> Any:
        with pytest.raises(assay.WorkflowFailed) as caught:
            await client.run(workflow, workflow_id="w")
        assert WorkflowCompleted.recorded_name not in [one.event_type for one in await client.get_events("w")]
        return caught.value

    error = with_client(program)
    assert error.kind == "INVALID"
    assert problem in error.message
    assert "annotated with" in error.message


@pytest.mark.parametrize(
    ("name", "problem", "begun"),
    [
        ("wrong_activity", "result of activity 'wrong_activity': Expected str, got int", 1),
        ("wrong_in_process", "result of activity 'wrong_in_process'.number: Expected int, got str", 0),
        ("step", "result of step 'wrong'[0]: Expected int, got str", 1),
    ],
)
def test_a_result_that_does_not_fit_fails_its_attempt_once(with_client: Any, name: str, problem: str, begun: int):
    kind, message, attempts = with_client(lambda client: client.run(caller, name))
    assert (kind, attempts) == ("INVALID", 1)
    assert message.startswith(problem)
    assert len(calls) == begun  # a process has a list of its own


def test_an_error_is_matched_by_the_name_of_its_class(with_client: Any):
    text, name, *matched = with_client(lambda client: client.run(matching))
    assert text == "activity 'loses_key' failed after 2 attempts: KeyError: 'key'"
    assert name == "KeyError"
    assert matched == [True, True, True, False, False]


def test_the_exception_of_a_failed_run_has_the_type_and_the_frames_of_the_workflow(with_client: Any):
    async def program(client: assay.Client) -> Any:
        with pytest.raises(assay.WorkflowFailed) as caught:
            await client.run(fails_by_key, workflow_id="order-1")
        return caught.value

    error = with_client(program)
    assert str(error) == "workflow 'order-1' failed: KeyError: 'key'"
    shown = "".join(traceback.format_exception(error))
    assert "assay.WorkflowFailed: workflow 'order-1' failed: KeyError: 'key'\nIn the workflow:" in shown
    assert '{}["key"]' in shown
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - made here


def test_the_failure_of_a_task_group_has_its_cause(with_client: Any):
    async def program(client: assay.Client) -> Any:
        with pytest.raises(assay.WorkflowFailed) as caught:
            await client.run(fails_in_group, workflow_id="order-1")
        return caught.value

    error = with_client(program)
    assert "ValueError: out of stock" in str(error)
    assert error.cause is not None
    assert (error.cause.type, error.cause.message) == ("ValueError", "out of stock")


@pytest.mark.parametrize("name", [name for name in assay.__all__ if isinstance(getattr(assay, name), type)])
def test_exceptions_are_shown_by_the_name_that_programs_import(name: str):
    found = getattr(assay, name)
    if issubclass(found, BaseException):
        assert f"{found.__module__}.{found.__qualname__}" == f"assay.{name}"
        assert pickle.loads(pickle.dumps(found)) is found  # noqa: S301 - made here
