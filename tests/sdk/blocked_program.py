"""Serves and does nothing else, with short limits: `python -m tests.sdk.blocked_program DATABASE CASE`."""

import functools
import sys
import threading

from assay import workflow
from assay.sdk import listening, worker
from assay.sdk.execution import watchdog

SHORT_LEASE_SECONDS = 0.5
SHORT_STOP_SECONDS = 1.0


@workflow.activity
async def block(ctx, _):
    sys.stdout.write("blocking\n")
    sys.stdout.flush()
    threading.Event().wait(3_600)  # the mistake that is to be found


@workflow.define
async def Blocking(ctx, _):
    await ctx.execute_activity(block)


def main(database: str, case: str) -> None:
    if case == "signal":
        listening.end_process_later = functools.partial(watchdog.end_process_later, seconds=SHORT_STOP_SECONDS)
    else:
        worker.lease_seconds = lambda lease: SHORT_LEASE_SECONDS
    workflow.connect(database)
    starting = threading.Thread(target=workflow.start, args=("Blocking",))
    starting.start()
    workflow.listen()


if __name__ == "__main__":
    main(*sys.argv[1:])
