"""The workflows of W1 to W7 for Restate: steps are `ctx.run`, as its users write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import restate

Argument = dict[str, Any]
one, seq, fan, sig, timer = (restate.Workflow(name) for name in ("one", "seq", "fan", "sig", "timer"))


async def step(i: int) -> Argument:
    return {"ok": True, "i": i}


@one.main("run")
async def run_one(ctx: restate.WorkflowContext, a: Argument) -> Argument:
    return await ctx.run_typed("step", step, i=a["i"])


@seq.main("run")
async def run_seq(ctx: restate.WorkflowContext, a: Argument) -> Argument:
    for _ in range(a["k"]):
        await ctx.run_typed("step", step, i=a["i"])
    return {"done": a["k"], "i": a["i"]}


@fan.main("run")
async def run_fan(ctx: restate.WorkflowContext, a: Argument) -> Argument:
    results = await restate.gather(*(ctx.run_typed("step", step, i=a["i"]) for _ in range(a["k"])))
    return {"done": len(results)}


@sig.main("run")
async def run_sig(ctx: restate.WorkflowContext, a: Argument) -> Argument:
    return await ctx.promise("go", type_hint=dict).value()


@sig.handler("go")
async def go(ctx: restate.WorkflowSharedContext, value: Argument) -> None:
    await ctx.promise("go", type_hint=dict).resolve(value)


@timer.main("run")
async def run_timer(ctx: restate.WorkflowContext, a: Argument) -> Argument:
    await ctx.sleep(timedelta(seconds=a["secs"]))
    return {"i": a["i"]}


app = restate.app([one, seq, fan, sig, timer])
