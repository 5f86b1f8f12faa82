"""An engine in a process of its own that keeps schedules going, and may be told to die at its first fire.

python -m tests.chaos.schedule_engine URL [before|after]    the commit of that fire
"""

import asyncio
import os
import signal
import sys

from assay.core.model.ids import RunId
from assay.embedded.stores import store_for
from assay.engine.clock import SystemClock
from assay.engine.engine import Engine
from assay.storage.ports import Changes
from assay.storage.sqlite.store import SqliteStore

READY = "ready"


class DeadlyStore(SqliteStore):
    """A file that kills who writes a fire to it, before or after it has done so."""

    moment = ""

    async def write(self, changes: Changes) -> frozenset[RunId]:
        if changes.fires and self.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        lost = await super().write(changes)
        if changes.fires and self.moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return lost


async def main(url: str, moment: str) -> None:
    clock = SystemClock()
    store = store_for(url, clock.now)
    if isinstance(store, SqliteStore):
        store = DeadlyStore(store.path, in_thread=False, clock=clock.now)
        store.moment = moment
    engine = Engine(store, None if store.shared else clock)
    await engine.start()
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], "".join(sys.argv[2:])))
