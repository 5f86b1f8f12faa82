"""Mistakes in calls and handlers are answered with what to write."""

import time
from typing import Any

import pytest

from assay.core.model.errors import Invalid
from assay.sdk.app import App
from assay.sdk.values.retry import Retry
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from tests.sdk.support import Trial


def test_the_refusal_of_a_thread_sleep_names_the_durable_one():
    async def waits(ctx: Context) -> None:
        time.sleep(1)  # noqa: ASYNC251, TID251

    assert "write `await ctx.sleep(seconds)`" in Trial(waits).failure.message


@pytest.mark.parametrize(("kind", "context"), [("workflow", "assay.Context"), ("activity", "assay.ActivityContext")])
def test_a_context_of_another_name_is_explained(kind: str, context: str):
    async def handler(context: Any, x: int) -> None:
        return None

    with pytest.raises(Invalid, match=f"named ctx, or annotated as one, such as context: {context}") as raised:
        getattr(App(), kind)(handler)
    assert "it also requires x" in raised.value.message


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda ctx: ctx.execute_activity("a", max_attemps=3), "no option 'max_attemps'; did you mean 'max_attempts'?"),
        (lambda ctx: ctx.run("a", list, timeot=3), "no option 'timeot'; did you mean 'timeout'?"),
        (
            lambda ctx: ctx.start_child_workflow("A", workflow_id="a", run_timeot=3),
            "no option 'run_timeot'; did you mean 'run_timeout'?",
        ),
    ],
)
def test_a_misspelt_option_names_the_nearest(call: Any, hint: str):
    async def calls(ctx: Context) -> None:
        await call(ctx)

    failure = Trial(calls).failure
    assert (failure.kind, hint in failure.message) == ("INVALID", True), failure.message


def test_a_misspelt_field_of_a_retry_policy_names_the_nearest():
    with pytest.raises(TypeError, match="no field 'max_attemps'; did you mean 'max_attempts'"):
        Retry(max_attemps=3)  # type: ignore[call-arg]


def test_a_default_tells_a_time_out_from_an_empty_signal():
    async def waits(ctx: Context) -> list[Any]:
        return [await ctx.wait_for_signal("s", timeout=5, default="late") for _ in range(2)]

    def blocks(ctx: BlockingContext) -> list[Any]:
        return [ctx.wait_for_signal("s", timeout=5, default="late") for _ in range(2)]

    for workflow in (waits, blocks):
        assert Trial(workflow).signal("s").fire(2).result == [None, "late"]
