"""What has become of a write whose answer was lost: the store is asked, since it alone knows (I3, 4.7)."""

import asyncio

from assay.core.run import Run
from assay.engine.batch import Batch
from assay.storage.store import Rejected, Store

TRIES = 6
FIRST_PAUSE = 0.02
TELLING = ("last_seq", "last_time", "seen_seq", "task", "activities", "timers")
"""What no two engines write alike: leases have ids of their own, and all else leaves an event."""


async def was_written(store: Store, batch: Batch) -> bool | None:
    """Is the batch durable? None when that can no longer be told: nobody answers, or others have written since."""
    for attempt in range(TRIES):
        try:
            found = {run.run_id: run for run in await store.load(tuple(batch.touched), ())}
        except Rejected:
            await asyncio.sleep(FIRST_PAUSE * 2**attempt)
            continue
        verdicts = {_written(run, found.get(run_id)) for run_id, run in batch.touched.items()}
        return verdicts.pop() if len(verdicts) == 1 else None
    return None


def _written(ours: Run, stored: Run | None) -> bool | None:
    """Is this run as we wanted to write it? Its version alone does not say by whom that version was written."""
    if stored is None or stored.version < ours.version:
        return False
    if stored.version > ours.version:
        return None
    return all(getattr(stored, name) == getattr(ours, name) for name in TELLING)
