"""The processes of a contestant that is more than one: an engine and a worker beside the client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

START_SECONDS = 30
STOP_SECONDS = 4


@asynccontextmanager
async def child(
    command: list[str], log: Path, variables: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process for the time of the block; what it says goes to its log."""
    with log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **(variables or {})},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let it finish for a while; what it has started and left behind is in its group, and ends with it."""
    if process.returncode is None:
        process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def listening(process: asyncio.subprocess.Process, port: int) -> None:
    """Return when the process takes connections."""
    async with asyncio.timeout(START_SECONDS):
        while process.returncode is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
    raise RuntimeError(f"the process for port {port} ended with {process.returncode}")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
