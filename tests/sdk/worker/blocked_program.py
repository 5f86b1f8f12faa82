"""Serves and does nothing else, with short limits: `python -m tests.sdk.worker.blocked_program DATABASE CASE`."""

import functools
import sys
import threading

from assay import Retry, workflow
from assay.sdk.worker import listening, watchdog, worker

SHORT_LEASE_SECONDS = 0.5
SHORT_STOP_SECONDS = 1.0


@workflow.activity
async def block(ctx, _):
    sys.stdout.write("blocking\n")
    sys.stdout.flush()
    threading.Event().wait(3_600)  # the mistake that is to be found


@workflow.activity
def hang(ctx, _):
    threading.Event().wait(3_600)


@workflow.define
async def Hanging(ctx, _):
    await ctx.execute_activity(hang, start_to_close=0.1, retry=Retry(max_attempts=3, initial_interval=0.01))


@workflow.define
async def Blocking(ctx, _):
    await ctx.execute_activity(block)


def main(database: str, case: str) -> None:
    if case == "hung threads":
        pass
    elif case == "signal":
        listening.end_process_later = functools.partial(watchdog.end_process_later, seconds=SHORT_STOP_SECONDS)
    else:
        worker.lease_seconds = lambda lease: SHORT_LEASE_SECONDS
    workflow.connect(database)
    workflow_type = "Hanging" if case == "hung threads" else "Blocking"
    threading.Thread(target=workflow.start, args=(workflow_type,)).start()
    workflow.listen(max_concurrent_activities=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
