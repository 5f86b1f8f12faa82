"""The worker's process: `python -m benchmarks.server.worker URL`."""

from __future__ import annotations

import asyncio
import signal
import sys

import uvloop

import assay
from benchmarks.contestants.assay_embedded import app


async def main(url: str) -> None:
    """Serve until SIGTERM."""
    client = await assay.Client.connect(url, app=app)
    worker = assay.Worker(client)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()
    await client.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
