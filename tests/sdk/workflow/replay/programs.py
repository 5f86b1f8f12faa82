"""Random workflow programs: trees of durable operations, and the workflow that carries such a tree out.

Everything that an operation learns (results, errors, times, random values) goes into a trace, and the state of the
trace goes into the next command; so two executions that send the same commands have seen the same things.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from assay.sdk.app import App
from assay.sdk.workflow.context import Context
from tests.sdk.workflow.replay import talking
from tests.sdk.workflow.replay.interpreter import OPERATIONS, Interpreter, Program
from tests.sdk.workflow.replay.talking import SECONDS

OPERATIONS |= {
    name: getattr(Interpreter, name)
    for name in (
        *("sequence", "activity", "parallel", "sleep", "signal", "effect", "step", "child", "upsert", "version"),
        *("gather", "group", "race", "limit", "wait_for", "attempt", "shield", "clean", "queue", "lock", "spawn"),
    )
}
OPERATIONS |= talking.OPERATIONS


async def carry_out(ctx: Context, program: list[Any]) -> Any:
    """The workflow: plays the program in its input and returns the trace."""
    interpreter = Interpreter(ctx)
    ctx.register_query("known", lambda: len(interpreter.trace))
    await interpreter.execute(_frozen(program))
    return interpreter.trace


def _frozen(program: Any) -> Any:
    return tuple(_frozen(part) for part in program) if isinstance(program, list) else program


def app() -> App:
    """The app that knows how to carry out programs."""
    found = App()
    found.workflow("Order", carry_out)
    return found


NAMES = st.sampled_from(["charge", "ship"])
LEAVES = st.one_of(
    st.tuples(st.just("activity"), NAMES),
    st.tuples(st.just("activity"), NAMES),
    st.tuples(st.just("parallel"), st.integers(1, 3)),
    st.tuples(st.just("sleep"), SECONDS),
    st.tuples(st.just("signal"), st.sampled_from(["paid", "sent"]), st.none() | SECONDS),
    st.tuples(st.just("effect"), NAMES),
    st.tuples(st.just("effect"), NAMES),
    st.tuples(st.just("step"), NAMES),
    st.tuples(st.just("child"), st.booleans()),
    st.tuples(st.just("upsert")),
    st.tuples(st.just("version"), NAMES),
    *talking.LEAVES,
)


def _branches(inner: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        *(
            several.map(lambda parts, name=name: (name, *parts))
            for name in ("sequence", "sequence", "gather", "group", "race", "queue", "lock")
        ),
        *(inner.map(lambda part, name=name: (name, part)) for name in ("attempt", "shield", "spawn")),
        *(st.tuples(SECONDS, inner).map(lambda pair, name=name: (name, *pair)) for name in ("limit", "wait_for")),
        st.tuples(inner, inner).map(lambda pair: ("clean", *pair)),
        *talking.branches(inner),
    )


PROGRAMS = st.lists(st.recursive(LEAVES, _branches, max_leaves=6), min_size=1, max_size=4).map(
    lambda parts: ("sequence", *parts)
)
