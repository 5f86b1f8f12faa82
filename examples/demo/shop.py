"""The process that the demo kills: it brings one order from the shelf to the customer, step by recorded step.

`python -m examples.demo.shop URL ORDER` starts the order, or goes on with it if it was begun before. What happens is
told on standard output, one line per fact: what, step, and a detail, with tabs between them.
"""

import random
import sys
import time
import uuid
from typing import Any

from assay import ActivityContext, Context, Retry, workflow

SECONDS_PER_STEP = 0.6
AGAIN_SOON = Retry(max_attempts=20, initial_interval=0.1)
STEPS = (
    "reserve stock",
    "charge card",
    "number parcel",
    "pack parcel",
    "wait for courier",
    "hand over",
    "send receipt",
)


def report(what: str, step: str, detail: object = "") -> None:
    print(what, step, detail, sep="\t", flush=True)


def work(ctx: ActivityContext, step: str) -> None:
    """Stands for a call to some service that takes its time."""
    report("began", step, ctx.info().attempt)
    time.sleep(SECONDS_PER_STEP)
    report("done", step)


@workflow.activity
def reserve_stock(ctx: ActivityContext, order: str) -> str:
    work(ctx, "reserve stock")
    return "shelf 12"


@workflow.activity
def charge_card(ctx: ActivityContext, order: str) -> int:
    work(ctx, "charge card")
    return 4200


@workflow.activity
def pack_parcel(ctx: ActivityContext, parcel: str) -> None:
    work(ctx, "pack parcel")


@workflow.activity
def hand_over(ctx: ActivityContext, parcel: str) -> None:
    work(ctx, "hand over")


def new_parcel_number() -> str:
    report("began", "number parcel", 1)
    number = f"{random.randrange(1_000_000):06}-{uuid.uuid4().hex[:4]}"  # noqa: S311  # a number, not a secret
    report("done", "number parcel")
    return number


def send_receipt(order: str, cents: int) -> None:
    report("began", "send receipt", 1)
    time.sleep(SECONDS_PER_STEP)
    report("done", "send receipt")


@workflow.define
async def FulfilOrder(ctx: Context, order: str) -> dict[str, Any]:
    """Activities, a side effect, a durable timer and an inline step, one after the other."""
    shelf = await ctx.execute_activity(reserve_stock, order, retry=AGAIN_SOON)
    cents = await ctx.execute_activity(charge_card, order, retry=AGAIN_SOON)
    parcel = await ctx.side_effect("number parcel", new_parcel_number)
    await ctx.execute_activity(pack_parcel, parcel, retry=AGAIN_SOON)
    await ctx.side_effect("courier called", lambda: report("began", "wait for courier", 1))
    await ctx.sleep(2 * SECONDS_PER_STEP)
    await ctx.side_effect("courier arrived", lambda: report("done", "wait for courier"))
    await ctx.execute_activity(hand_over, parcel, retry=AGAIN_SOON)
    await ctx.run("send receipt", send_receipt, order, cents)
    return {"parcel": parcel, "shelf": shelf, "paid": cents / 100}


def main() -> None:
    url, order = sys.argv[1:]
    workflow.connect(url)
    report("ready", "")
    result = workflow.run(FulfilOrder, order, workflow_id=order)
    report("result", "", f"parcel {result['parcel']} from {result['shelf']}, {result['paid']:.2f} paid")


if __name__ == "__main__":
    main()
