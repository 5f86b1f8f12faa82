"""The workflows of W1 to W7 for assay, queued and inline: the same ones embedded and beside a server."""

from __future__ import annotations

import asyncio
from typing import Any

import assay

app = assay.App()


@app.activity
async def step(ctx: Any, a: dict[str, Any]) -> dict[str, Any]:
    """The queued activity."""
    return {"ok": True, "i": a["i"]}


async def inline_step(a: dict[str, Any]) -> dict[str, Any]:
    """The inline step."""
    return {"ok": True, "i": a["i"]}


@app.workflow
async def one_queued(ctx: Any, a: dict[str, Any]) -> Any:
    return await ctx.execute_activity(step, a)


@app.workflow
async def one_inline(ctx: Any, a: dict[str, Any]) -> Any:
    return await ctx.run("step", inline_step, a)


@app.workflow
async def seq_queued(ctx: Any, a: dict[str, Any]) -> Any:
    for _ in range(a["k"]):
        await ctx.execute_activity(step, a)
    return {"done": a["k"], "i": a["i"]}


@app.workflow
async def seq_inline(ctx: Any, a: dict[str, Any]) -> Any:
    for _ in range(a["k"]):
        await ctx.run("step", inline_step, a)
    return {"done": a["k"], "i": a["i"]}


@app.workflow
async def fan_queued(ctx: Any, a: dict[str, Any]) -> Any:
    results = await asyncio.gather(*(ctx.execute_activity(step, a) for _ in range(a["k"])))
    return {"done": len(results)}


@app.workflow
async def fan_inline(ctx: Any, a: dict[str, Any]) -> Any:
    results = await asyncio.gather(*(ctx.run("step", inline_step, a) for _ in range(a["k"])))
    return {"done": len(results)}


@app.workflow
async def sig_queued(ctx: Any, a: dict[str, Any]) -> Any:
    return await ctx.wait_for_signal("go")


@app.workflow
async def timer_queued(ctx: Any, a: dict[str, Any]) -> Any:
    await ctx.sleep(a["secs"])
    return {"i": a["i"]}
