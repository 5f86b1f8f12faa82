"""A supervisor: linked children are started again when they fail, and the supervisor gives up after three failures.

    python -m examples.supervisor

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file supervisor.db.
"""

import logging
import os

from assay import Context, workflow

MOST_FAILURES = 3


@workflow.define
async def Service(ctx: Context, start: int) -> str:
    await ctx.sleep(0.02)
    if start < 3:
        raise RuntimeError(f"start {start} failed")
    return f"served at start {start}"


@workflow.define
async def Supervisor(ctx: Context) -> list[str]:
    ctx.set_options(trap_links=True)
    log: list[str] = []
    for start in range(1, MOST_FAILURES + 1):
        await ctx.spawn_linked(Service, start)
        event = await ctx.events().receive()
        if event.error is None:
            return [*log, event.value]
        log.append(f"{event.error.message}: started again")
        # A failed link brings two events: the end of the child, and the end of the link.
        await ctx.events().receive()
    return [*log, "given up"]


def main() -> None:
    logging.getLogger("assay.worker").setLevel(logging.CRITICAL)  # the failures of this example are intended
    workflow.connect(os.environ.get("ASSAY_ENGINE_URL", "sqlite://supervisor.db"))
    for line in workflow.run(Supervisor):
        print(line)


if __name__ == "__main__":
    main()
