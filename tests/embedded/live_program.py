"""A program that embeds its engine, for tests that look into its file.

It prints `ready` when its workflows wait, and finishes them when it reads a line.
"""

import sys

from assay import workflow
from assay.sdk.workflow.context import Context


@workflow.define
async def Greet(ctx: Context, name: str) -> str:
    return f"Hello {name}"


@workflow.define
async def Approval(ctx: Context) -> object:
    ctx.register_query("stage", lambda: "waiting")
    await ctx.start_child_workflow("Greet", workflow_id="child-1", input="Bob")
    return await ctx.wait_for_signal("go")


def main(path: str) -> None:
    workflow.connect(f"sqlite://{path}")
    first = workflow.describe("greet-1") is None
    workflow.start(Approval, workflow_id="approval-1", id_conflict_policy="use_existing")
    if first:
        begin()
    write_line("ready")
    for _ in sys.stdin:
        workflow.signal("approval-1", "go", "yes")
        workflow.result("approval-1")
        write_line("done")
    workflow.close()


def begin() -> None:
    workflow.run(Greet, "Ada", workflow_id="greet-1")
    workflow.schedules.create("nightly", Greet, "0 3 * * *")
    workflow.result("child-1")


def write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
