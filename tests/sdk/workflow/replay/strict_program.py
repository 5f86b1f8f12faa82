"""A strict worker and a lenient one, in a process of their own: strict mode changes functions of the whole process."""

import asyncio
import json
import logging
import os
import random
import secrets
import sys
import time
import uuid
from random import choice
from time import time as now  # noqa: TID251  # to see it refused
from typing import Any

import assay
from assay import App, Client, Worker

CALLS: dict[str, Any] = {
    "time.time": lambda: time.time(),  # noqa: TID251  # to see it refused
    "time.time_ns": lambda: time.time_ns(),  # noqa: TID251  # to see it refused
    "time.monotonic": lambda: time.monotonic(),
    "imported time": lambda: now(),
    "random.random": lambda: random.random(),  # noqa: S311  # to see it refused
    "random.randint": lambda: random.randint(1, 6),  # noqa: S311  # to see it refused
    "imported choice": lambda: choice("ab"),  # noqa: S311  # to see it refused
    "random.shuffle": lambda: random.shuffle([1, 2]),
    "uuid.uuid1": lambda: uuid.uuid1(),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "os.urandom": lambda: os.urandom(4),
    "secrets.token_hex": lambda: secrets.token_hex(4),
    "secrets.choice": lambda: secrets.choice("ab"),
    "logging": lambda: logging.getLogger("strict").warning("allowed"),
    "seeded": lambda: random.Random(1).random(),  # noqa: S311  # repeatable
}

app = App()


@app.workflow
async def Calls(ctx: assay.Context) -> dict[str, Any]:
    found = {}
    for name, call in CALLS.items():
        try:
            call()
            found[name] = "called"
        except RuntimeError as error:
            found[name] = str(error)
    await ctx.run("step", lambda: [call() for call in CALLS.values()] and None)
    await ctx.side_effect("effect", lambda: uuid.uuid4().hex)
    found["ctx"] = len(await ctx.random_bytes(4)) + ctx.random().random() + ctx.uuid4().int + ctx.now().year > 0
    return found


@app.workflow
def Blocking(ctx: assay.BlockingContext) -> str:
    try:
        return str(time.time())  # noqa: TID251  # to see it refused
    except RuntimeError as error:
        return str(error)


async def main(url: str) -> None:
    async with await Client.connect(url, app=app) as client:
        outcomes = []
        for strict in (True, False):
            async with Worker(client, strict=strict):
                outcomes.append([await client.run(Calls), await client.run(Blocking)])
        sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
