"""A request that waits for a person, but not for ever: a signal approves it, or a durable timer turns it down.

    python -m examples.approval

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file approval.db. This example uses the
client and the worker as objects on an event loop of its own.
"""

import asyncio
import os
from dataclasses import dataclass
from datetime import timedelta

import assay

app = assay.App()


@dataclass
class Expense:
    employee: str
    amount: int
    patience: timedelta


@dataclass
class Decision:
    approved: bool
    by: str


@app.workflow
async def ApproveExpense(ctx: assay.Context, expense: Expense) -> str:
    status = "waiting for approval"
    ctx.register_query("status", lambda: status)
    decision = await ctx.wait_for_signal("decision", timeout=expense.patience, type=Decision)
    if decision is None:
        status = "turned down: nobody decided in time"
    elif decision.approved:
        await ctx.execute_activity(pay_out, expense)
        status = f"paid, approved by {decision.by}"
    else:
        status = f"turned down by {decision.by}"
    return status


@app.activity
def pay_out(expense: Expense) -> None:
    print(f"paying {expense.amount} to {expense.employee}")


async def decide_some(client: assay.Client) -> None:
    lunch = await client.start(ApproveExpense, input=Expense("Ada", 25, timedelta(days=3)))
    yacht = await client.start(ApproveExpense, input=Expense("Max", 2_000_000, timedelta(days=3)))
    forgotten = await client.start(ApproveExpense, input=Expense("Eve", 40, timedelta(seconds=0.5)))
    await lunch.signal("decision", Decision(True, "Grace"))
    await yacht.signal("decision", Decision(False, "Grace"))
    for name, handle in {"lunch": lunch, "yacht": yacht, "forgotten": forgotten}.items():
        print(f"{name}: {await handle.result()}")


async def main() -> None:
    url = os.environ.get("ASSAY_ENGINE_URL", "sqlite://approval.db")
    async with await assay.Client.connect(url, app=app) as client:
        worker = assay.Worker(client)
        serving = asyncio.create_task(worker.run())
        await decide_some(client)
        worker.stop()
        await serving


if __name__ == "__main__":
    asyncio.run(main())
