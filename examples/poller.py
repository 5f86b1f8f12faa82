"""A poller that may run for years: after some polls it continues as new, so that its history stays short.

    python -m examples.poller

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file poller.db.
"""

import os
import uuid
from dataclasses import dataclass, replace

from assay import Context, workflow

POLLS_PER_RUN = 3


@dataclass(frozen=True)
class Watch:
    export: str
    polls: int = 0


@workflow.define
async def AwaitExport(ctx: Context, watch: Watch) -> str:
    ctx.register_query("polls", lambda: watch.polls)
    for _ in range(POLLS_PER_RUN):
        ready = await ctx.execute_activity(is_ready, watch)
        watch = replace(watch, polls=watch.polls + 1)
        if ready:
            return f"{watch.export} is ready after {watch.polls} polls"
        await ctx.sleep("100ms")
    # The same workflow id, a new run, an empty history; what must not be lost goes along as the input.
    ctx.continue_as_new(watch)


@workflow.activity
def is_ready(watch: Watch) -> bool:
    print(f"poll {watch.polls + 1} of {watch.export}")
    return watch.polls >= 7


def main() -> None:
    workflow.connect(os.environ.get("ASSAY_ENGINE_URL", "sqlite://poller.db"))
    watcher = f"await-{uuid.uuid4()}"
    print(workflow.run(AwaitExport, Watch("export-2031"), workflow_id=watcher))
    runs = workflow.list_runs(watcher)
    print(f"{len(runs)} runs, none with more than {max(run.history_length for run in runs)} events")


if __name__ == "__main__":
    main()
