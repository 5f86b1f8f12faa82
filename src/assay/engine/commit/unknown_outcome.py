"""Find out whether a write is durable whose COMMIT was not answered (I3).

A database server may receive a COMMIT long after the engine has lost its connection, and until then the runs are as
they were before: reading them proves nothing. Such a store is asked for the status of the transaction. A store with one
writer has no COMMIT under way once `write` has raised, so there the runs themselves are read.
"""

import asyncio
import contextlib

from assay.engine.commit.batch import Batch
from assay.storage.ports import CommitStatus, Rejected, Store, UnansweredCommit

UNKNOWN_AFTER_SECONDS = 30.0
"""Seconds until the outcome is given up as unknown."""
ABORT_AFTER = 5.0
"""Seconds after which a transaction is ended whose COMMIT has not arrived: it holds locks that other writes need."""
FIRST_RECHECK_SECONDS = 0.02
LONGEST_RECHECK_SECONDS = 1.0


async def was_written(store: Store, batch: Batch, commit: UnansweredCommit | None) -> bool | None:
    """Return whether the batch is durable; None if the store does not answer in time, or cannot know."""
    loop = asyncio.get_running_loop()
    began, pause = loop.time(), FIRST_RECHECK_SECONDS
    while True:
        waited = loop.time() - began
        with contextlib.suppress(Rejected):  # the store did not answer: ask again
            status = await (_as_read(store, batch) if commit is None else commit.status())
            if status is not CommitStatus.IN_PROGRESS:
                return {CommitStatus.COMMITTED: True, CommitStatus.ABORTED: False}.get(status)
            if commit is not None and waited >= ABORT_AFTER:
                await commit.abort_if_idle()
        if waited >= UNKNOWN_AFTER_SECONDS:
            return None
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_RECHECK_SECONDS)


async def _as_read(store: Store, batch: Batch) -> CommitStatus:
    """Return the status that the stored runs show: no other engine writes, so the batch's versions are its own."""
    versions = {run.run_id: run.version for run in await store.load(tuple(batch.touched), ())}
    written = {versions.get(run_id, 0) >= run.version for run_id, run in batch.touched.items()}
    if len(written) != 1:
        return CommitStatus.UNKNOWN
    return CommitStatus.COMMITTED if written.pop() else CommitStatus.ABORTED
