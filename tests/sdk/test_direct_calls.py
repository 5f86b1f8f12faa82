"""Activities called like functions: refused in workflow code, ordinary calls everywhere else."""

import inspect
import pickle
from typing import Any

import pytest

from assay.sdk.app import App
from assay.sdk.values.annotations import result_annotation
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from tests.sdk.end_to_end import on_loop, served
from tests.sdk.support import Trial

app = App()


@app.activity
def charge(order: str) -> str:
    """Charge an order."""
    return f"charged {order}"


@app.activity(name="send mail")
async def send(_: str) -> str:
    return "sent"


@app.activity
def noop() -> None:
    return None


@app.activity
def both(order: str) -> "list[str]":
    return [charge(order), charge(order)]


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: charge("x"), "'charge' like a function.* Write `await ctx.execute_activity\\(charge, order\\)`"),
        (lambda: send("x"), "'send mail' like a function.* Write `await ctx.execute_activity\\(send, _\\)`"),
        (noop, "Write `await ctx.execute_activity\\(noop\\)`"),
    ],
)
def test_workflow_code_is_told_the_line_to_write(call: Any, line: str):
    async def buy(ctx: Context) -> Any:
        found = call()
        return await found if inspect.isawaitable(found) else found

    failure = Trial(buy).failure
    assert failure.type == "WorkflowIOError"
    with pytest.raises(AssertionError, match=line):
        raise AssertionError(failure.message)


def test_the_line_of_a_blocking_workflow_has_no_await():
    def buy(ctx: BlockingContext) -> Any:
        return charge("x")

    assert Trial(buy).failure.message.endswith("Write `ctx.execute_activity(charge, order)`")


@app.workflow
async def Elsewhere(ctx: Context) -> list[Any]:
    return [
        await ctx.execute_activity(both, "a"),
        await ctx.run("step", charge, "b"),
        await ctx.run("lambda", lambda: charge("c")),
        await ctx.run("async", send, "d"),
        await ctx.side_effect("effect", lambda: charge("e")),
    ]


@on_loop
async def test_everywhere_else_it_is_an_ordinary_call(tmp_path: Any):
    async with served(tmp_path, app) as place:
        found = await place.run(Elsewhere, "one")
    assert found == [["charged a", "charged a"], "charged b", "charged c", "sent", "charged e"]
    assert charge("f") == "charged f"
    assert await send("g") == "sent"


def test_the_decorated_function_is_like_the_one_written():
    assert pickle.loads(pickle.dumps(charge)) is charge  # noqa: S301
    assert (charge.__name__, charge.__doc__, charge.__module__) == ("charge", "Charge an order.", __name__)
    assert inspect.iscoroutinefunction(send)
    assert str(inspect.signature(charge)) == "(order: str) -> str"
    assert result_annotation(both) == list[str]


def test_one_function_may_be_an_activity_of_several_apps():
    def plain(_: Any) -> None:
        return None

    one, other = App(), App()
    decorated = one.activity(plain)
    assert other.activity("other name", decorated) is decorated
    assert [one.name_of(plain), one.name_of(decorated), other.name_of(decorated)] == ["plain", "plain", "other name"]
