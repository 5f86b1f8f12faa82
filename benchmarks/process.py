"""A contestant's process as the benchmark sees it: started, asked, measured, ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.proc import tree

READY_SECONDS = 60
CASE_SECONDS = 180
STOP_SECONDS = 15


class Contestant:
    """One engine in its own process."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def ask(self, workload: str, style: str, size: dict[str, Any], limit: float = CASE_SECONDS) -> Any:
        """Have a workload run; the answer has its measures or an error."""
        line = json.dumps({"workload": workload, "style": style, "size": size, "timeout": limit})
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        return await self.answer(limit + 10)

    async def answer(self, limit: float) -> Any:
        """The next line it says that is an answer."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(limit):
                while line := await self._process.stdout.readline():
                    with contextlib.suppress(json.JSONDecodeError):
                        return json.loads(line)
        except TimeoutError:
            return {"error": f"no answer within {limit:.0f} s"}
        return {"error": f"the process ended; its log: {self._last_words()}"}

    def _last_words(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-500:].strip()

    async def end(self) -> None:
        """Let it finish, but not for ever; the processes it has started go with it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            for process in tree(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            await self._process.wait()


@asynccontextmanager
async def running(name: str, command: list[str], folder: Path) -> AsyncIterator[Contestant]:
    """A contestant for the time of the block; what it logs is in its folder."""
    log = folder / f"{name}.log"
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    contestant = Contestant(name, process, log)
    try:
        ready = await contestant.answer(READY_SECONDS)
        if "error" in ready:
            raise SystemExit(f"{name} did not start: {ready['error']}")
        yield contestant
    finally:
        await contestant.end()
