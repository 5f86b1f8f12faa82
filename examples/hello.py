"""The smallest durable program: one workflow, one activity, and an engine in this very process.

    python -m examples.hello            start a workflow and print its result
    python -m examples.hello listen     serve workflows until Ctrl-C

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file hello.db.
"""

import os
import sys

from assay import Context, workflow


@workflow.activity
def greet(name: str) -> str:
    return f"Hello, {name}!"


@workflow.define
async def Hello(ctx: Context, name: str) -> str:
    return await ctx.execute_activity(greet, name)


def main() -> None:
    workflow.connect(os.environ.get("ASSAY_ENGINE_URL", "sqlite://hello.db"))
    if sys.argv[1:] == ["listen"]:
        workflow.listen()
    else:
        print(workflow.run(Hello, "world"))


if __name__ == "__main__":
    main()
