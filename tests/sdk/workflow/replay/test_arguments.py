"""What a call of ctx cannot make sense of is refused at the call."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from assay.core.model.errors import Invalid
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from tests.sdk.support import Trial


async def later() -> int:
    return 1


CALLS: dict[str, Callable[[Context], Awaitable[Any]]] = {
    "signal name must not be empty": lambda ctx: ctx.wait_for_signal(""),
    "step 'x' needs a function, not int": lambda ctx: ctx.run("x", 5),  # type: ignore[call-overload,no-any-return]
    "step 'x' needs a function, not coroutine: give it the function itself": lambda ctx: ctx.run("x", later()),  # type: ignore[call-overload,no-any-return]
    "side effect 'x' needs a function": lambda ctx: ctx.side_effect("x", "5"),  # type: ignore[call-overload,no-any-return]
}


@pytest.mark.parametrize("problem", CALLS)
def test_a_call_that_makes_no_sense_is_refused(problem: str):
    async def workflow(ctx: Context) -> Any:
        try:
            await CALLS[problem](ctx)
        except Invalid as error:
            return error.message

    trial = Trial(workflow)
    assert trial.result.startswith(problem)
    assert len(trial.commands) == 1


def test_a_query_is_a_function():
    async def workflow(ctx: Context) -> Any:
        ctx.register_query("x", 5)  # type: ignore[arg-type]

    assert Trial(workflow).failure.message == "query 'x' needs a function, not int"


def test_blocking_calls_are_held_to_the_same():
    def workflow(ctx: BlockingContext) -> Any:
        ctx.wait_for_signal("")

    assert Trial(workflow).failure.message == "signal name must not be empty"
