"""The workflows and activities that run while their process is killed: an interpreter of the programs in `plan`.

Every activity and step writes what it does into the effects ledger before it returns.
"""

import asyncio
import os
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import assay
from assay.core.model.addresses import workflow_address
from tests.chaos.ledger import Ledger, effects_file
from tests.chaos.plan import computed

MANY = 1_000
"""Attempts of an activity that must succeed in the end; each kill may cost one."""

SOON = assay.Retry(max_attempts=MANY, initial_interval=0.01, maximum_interval=0.1)
THRICE = assay.Retry(max_attempts=3, initial_interval=0.01)
ONCE = assay.Retry(max_attempts=1)
LIMITS = {"compute": MANY, "compute_in_thread": MANY, "stumble": MANY, "doom": 3, "gamble": 1, "clean_up": MANY}
"""The most attempts that each activity may have."""

BEAT = 0.3
"""Seconds between two heartbeats of work that takes its time."""

app = assay.App(queue="chaos")
_ledger: list[Ledger] = []


def record_effects_in(folder: Path) -> None:
    """Where this process writes down what it does."""
    _ledger[:] = [Ledger(effects_file(folder))]


def _ran(info: Any, nonce: str) -> None:
    _ledger[0].append(
        kind="activity",
        name=info.name,
        activity_id=info.activity_id,
        run_id=info.run_id,
        attempt=info.attempt,
        pid=os.getpid(),
        nonce=nonce,
        at=time.monotonic(),
    )


def _nonce() -> str:
    return uuid.uuid4().hex


@app.activity
async def compute(ctx: assay.ActivityContext, number: int) -> list[Any]:
    nonce = _nonce()
    _ran(ctx.info(), nonce)
    return [computed(number), nonce]


@app.activity
def compute_in_thread(ctx: assay.ActivityContext, work: dict[str, Any]) -> list[Any]:
    nonce = _nonce()
    _ran(ctx.info(), nonce)
    end = time.monotonic() + work["seconds"]
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, BEAT))  # noqa: TID251  # stands for work that takes its time
        ctx.heartbeat({"left": left})
    return [computed(work["number"]), nonce]


@app.activity
async def stumble(ctx: assay.ActivityContext, work: dict[str, Any]) -> list[Any]:
    nonce = _nonce()
    _ran(ctx.info(), nonce)
    if ctx.info().attempt <= work["failures"]:
        raise ConnectionError(f"attempt {ctx.info().attempt} fails")
    return [computed(work["number"]), nonce]


@app.activity
async def doom(ctx: assay.ActivityContext, number: int) -> None:
    _ran(ctx.info(), _nonce())
    raise ValueError(f"{number} never works")


@app.activity
async def gamble(ctx: assay.ActivityContext, number: int) -> list[Any]:
    nonce = _nonce()
    _ran(ctx.info(), nonce)
    await asyncio.sleep(0.02)
    return ["ok", nonce]


@app.activity
async def clean_up(ctx: assay.ActivityContext) -> str:
    _ran(ctx.info(), _nonce())
    return "clean"


class InlineStep:
    """A step of a run: fails a few times in each process, then works."""

    failed: ClassVar[Counter[tuple[str, int]]] = Counter()

    def __init__(self, run_id: str, place: int, failures: int) -> None:
        self._run_id = run_id
        self._place = place
        self._failures = failures

    def __call__(self, number: int) -> list[Any]:
        nonce = _nonce()
        _ledger[0].append(kind="step", run_id=self._run_id, place=self._place, nonce=nonce, at=time.monotonic())
        self.failed[self._run_id, self._place] += 1
        if self.failed[self._run_id, self._place] <= self._failures:
            raise ConnectionError("not yet")
        return [computed(number), nonce]


@app.workflow(name="Program")
async def run_program(ctx: assay.Context, input: dict[str, Any]) -> list[Any]:
    """Take the steps one after the other, then end as the program says."""
    done = list(input["done"])
    for place, (kind, *details) in enumerate(input["steps"]):
        if kind == "renew":
            rest = {**input, "steps": input["steps"][place + 1 :], "done": [*done, ["renew", None]]}
            ctx.continue_as_new(rest)
        done.append(await STEPS[kind](ctx, place, *details))
    return await ENDINGS[input["ending"]](ctx, done)


@app.workflow(name="Errand")
def run_errand(ctx: assay.BlockingContext, work: dict[str, Any]) -> list[Any]:
    """A `def` workflow: an activity, a pause, a side effect, another activity."""
    value, _ = ctx.execute_activity(compute, work["number"], retry=SOON)
    ctx.sleep(work["pause"])
    ctx.side_effect("nonce", _nonce)
    return ctx.execute_activity(compute, value, retry=SOON)


async def _activity(ctx: assay.Context, _: int, number: int) -> list[Any]:
    return await ctx.execute_activity(compute, number, retry=SOON)


async def _thread_activity(ctx: assay.Context, _: int, number: int, seconds: float) -> list[Any]:
    return await ctx.execute_activity(compute_in_thread, {"number": number, "seconds": seconds}, retry=SOON)


async def _flaky(ctx: assay.Context, _: int, number: int, failures: int) -> list[Any]:
    return await ctx.execute_activity(stumble, {"number": number, "failures": failures}, retry=SOON)


async def _doomed(ctx: assay.Context, _: int, number: int) -> list[Any]:
    try:
        await ctx.execute_activity(doom, number, retry=THRICE)
    except assay.ActivityError:
        return ["doomed", None]
    return ["worked", None]


async def _once(ctx: assay.Context, _: int, number: int) -> list[Any]:
    try:
        return await ctx.execute_activity(gamble, number, retry=ONCE)
    except assay.ActivityError:
        return ["lost", None]


async def _parallel(ctx: assay.Context, _: int, numbers: list[int]) -> list[Any]:
    found = await asyncio.gather(*(ctx.execute_activity(compute, number, retry=SOON) for number in numbers))
    return [[value for value, _ in found], [nonce for _, nonce in found]]


async def _inline(ctx: assay.Context, place: int, number: int, failures: int = 0) -> list[Any]:
    step = InlineStep(ctx.info().run_id, place, failures)
    return await ctx.run("inline", step, number, retry=SOON)


async def _walk(ctx: assay.Context, place: int, numbers: list[int]) -> list[Any]:
    found = [await _inline(ctx, 1_000 * (place + 1) + turn, number) for turn, number in enumerate(numbers)]
    return [[value for value, _ in found], [nonce for _, nonce in found]]


async def _side_effect(ctx: assay.Context, _: int) -> list[Any]:
    return ["side_effect", await ctx.side_effect("nonce", _nonce)]


async def _timer(ctx: assay.Context, _: int, seconds: float) -> list[Any]:
    await ctx.sleep(seconds)
    return ["timer", None]


async def _silence(ctx: assay.Context, _: int, seconds: float) -> list[Any]:
    received = await ctx.wait_for_signal("never sent", timeout=seconds)
    return ["silence" if received is None else "heard", None]


async def _signal(ctx: assay.Context, _: int, name: str) -> list[Any]:
    received = await ctx.wait_for_signal(name)
    return [name, received["nonce"]]


async def _child(ctx: assay.Context, place: int, steps: list[Any]) -> list[Any]:
    program = {"steps": steps, "ending": "complete", "done": []}
    child = f"{ctx.info().run_id}/{place}"
    done = await ctx.start_child_workflow(run_program, workflow_id=child, input=program)
    return [[value for value, _ in done], [nonce for _, nonce in done]]


async def _errand(ctx: assay.Context, place: int, number: int, pause: float) -> list[Any]:
    child = f"{ctx.info().run_id}/{place}"
    return await ctx.start_child_workflow(run_errand, workflow_id=child, input={"number": number, "pause": pause})


async def _monitored(ctx: assay.Context, place: int, number: int, pause: float) -> list[Any]:
    return await _watched(ctx, place, number, pause, ctx.monitor)


async def _linked(ctx: assay.Context, place: int, number: int, pause: float) -> list[Any]:
    return await _watched(ctx, place, number, pause, ctx.link)


async def _watched(ctx: assay.Context, place: int, number: int, pause: float, watch: Any) -> list[Any]:
    """An errand that is watched like any other workflow: its end is one event, with its result."""
    running = asyncio.create_task(_errand(ctx, place, number, pause))
    await asyncio.sleep(0)
    pid = workflow_address(ctx.info().namespace, f"{ctx.info().run_id}/{place}")
    await watch(pid)
    event = await ctx.events().receive()
    result = await running
    return result if (event.from_, event.value) == (pid, result) else ["another event", None]


STEPS = {
    "activity": _activity,
    "thread_activity": _thread_activity,
    "flaky": _flaky,
    "doomed": _doomed,
    "once": _once,
    "parallel": _parallel,
    "inline": _inline,
    "flaky_inline": _inline,
    "walk": _walk,
    "side_effect": _side_effect,
    "timer": _timer,
    "silence": _silence,
    "signal": _signal,
    "child": _child,
    "errand": _errand,
    "monitored": _monitored,
    "linked": _linked,
}


async def _complete(_: assay.Context, done: list[Any]) -> list[Any]:
    return done


async def _fail(_: assay.Context, done: list[Any]) -> list[Any]:
    raise ValueError(f"failed after {len(done)} steps")


async def _wait_for_cancel(ctx: assay.Context, done: list[Any]) -> list[Any]:
    try:
        await ctx.wait_for_signal("never sent")
    except assay.CancelRequested:
        with ctx.shield():
            await ctx.execute_activity(clean_up, retry=SOON)
        raise
    return done


async def _wait_for_ever(ctx: assay.Context, done: list[Any]) -> list[Any]:
    await ctx.wait_for_signal("never sent")
    return done


ENDINGS = {"complete": _complete, "fail": _fail, "cancel": _wait_for_cancel, "terminate": _wait_for_ever}
