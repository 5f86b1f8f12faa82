"""Finds out whether a write is durable after an unconfirmed COMMIT (I3).

A database server may process a COMMIT long after the engine has lost the connection. Until then the runs are unchanged,
and reading them proves nothing: the status of the transaction itself is queried. A store with one writer has no COMMIT
in progress once `write` has raised, and there the versions of the runs are the proof.
"""

import asyncio
import contextlib

from assay.engine.commit.batch import Batch
from assay.storage.ports import CommitStatus, Rejected, Store, UnansweredCommit

UNKNOWN_AFTER_SECONDS = 30.0
"""Seconds until the outcome is reported as unknown."""
ABORT_AFTER_SECONDS = 5.0
"""Seconds after which an idle transaction is aborted: its COMMIT never arrived, and its locks block other writes."""
FIRST_RECHECK_SECONDS = 0.02
LONGEST_RECHECK_SECONDS = 1.0


async def was_written(store: Store, batch: Batch, commit: UnansweredCommit | None) -> bool | None:
    """Return whether the batch is durable; None if the store does not reply in time or has no record of the commit."""
    loop = asyncio.get_running_loop()
    began, pause = loop.time(), FIRST_RECHECK_SECONDS
    while True:
        waited = loop.time() - began
        with contextlib.suppress(Rejected):  # the store is unreachable: query again
            status = await (_as_read(store, batch) if commit is None else commit.status())
            if status is not CommitStatus.IN_PROGRESS:
                return {CommitStatus.COMMITTED: True, CommitStatus.ABORTED: False}.get(status)
            if commit is not None and waited >= ABORT_AFTER_SECONDS:
                await commit.abort_if_idle()
        if waited >= UNKNOWN_AFTER_SECONDS:
            return None
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_RECHECK_SECONDS)


async def _as_read(store: Store, batch: Batch) -> CommitStatus:
    """Return the status by the versions of the stored runs: with one writer they are this batch's own."""
    versions = {run.run_id: run.version for run in await store.load(tuple(batch.touched), ())}
    written = {versions.get(run_id, 0) >= run.version for run_id, run in batch.touched.items()}
    if len(written) != 1:  # no runs, or some written and some not: the versions prove nothing
        return CommitStatus.UNKNOWN
    return CommitStatus.COMMITTED if written.pop() else CommitStatus.ABORTED
