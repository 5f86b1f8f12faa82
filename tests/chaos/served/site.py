"""Engines behind HTTP and the workers that serve them, each a process of its own."""

import asyncio
import re
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.http.processes import ADDRESS, READY, STOP_SECONDS, Process, Server

WORKER = "tests/chaos/served/worker.py"


@dataclass
class Chronicle:
    """What happened to the processes."""

    recoveries: list[float] = field(default_factory=list)
    killed: dict[int, float] = field(default_factory=dict)
    """When each process was killed, by its id."""
    refused: list[str] = field(default_factory=list)
    """Processes that did not come up again, for instance because of a stale lock."""
    slow_stops: list[str] = field(default_factory=list)


class Site:
    """All processes of a scenario; they are started and watched in threads, because the client must not wait."""

    def __init__(self, folder: Path, database: str, engines: int, workers: int) -> None:
        self.folder = folder
        self.chronicle = Chronicle()
        self._lives = 0
        self._serving: dict[Process, asyncio.Task[None]] = {}
        self.engines = [Server(folder, database, f"engine-{place}") for place in range(engines)]
        self.workers = [self._worker(place) for place in range(workers)]

    @property
    def url(self) -> str:
        """Where the client goes."""
        return self.engines[0].url

    def _worker(self, place: int) -> Process:
        """A worker; several are shared among the engines."""
        return self._employed(place, self.engines[place % len(self.engines)].url)

    def _employed(self, place: int, url: str, **variables: str) -> Process:
        self._lives += 1
        command = ["-m", "assay.cli.main", "run", WORKER, "--engine-url", url]
        log = self.folder / f"worker-{place}-{self._lives}.log"
        return Process(command, log, {"CHAOS_FOLDER": str(self.folder), **variables})

    def employ(self, url: str, **variables: str) -> None:
        """One more worker, by another way to the engine."""
        self.workers.append(self._employed(len(self.workers), url, **variables))

    def watch(self) -> None:
        """Take note of which processes serve."""
        for engine in self.engines:
            self._watched(engine.process, ADDRESS, None)
        for worker in self.workers:
            self._watched(worker, READY, None)

    def _watched(self, process: Process, pattern: "re.Pattern[str]", killed: float | None) -> None:
        self._serving[process] = asyncio.create_task(self._serves(process, pattern, killed))

    async def _serves(self, process: Process, pattern: "re.Pattern[str]", killed: float | None) -> None:
        try:
            await asyncio.to_thread(process.wait_for, pattern)
        except AssertionError as error:
            if process.pid not in self.chronicle.killed:
                self.chronicle.refused.append(str(error))
        else:
            if killed is not None:
                self.chronicle.recoveries.append(time.monotonic() - killed)

    async def ready(self, *processes: Process) -> None:
        """Wait until these serve, or all."""
        everyone = (*self.workers, *(engine.process for engine in self.engines))
        await asyncio.gather(*(self._serving[process] for process in processes or everyone))

    def kill_engine(self, place: int) -> None:
        """kill -9, and at once the next."""
        engine = self.engines[place]
        killed = self._kill(engine.process)
        engine.begin()
        self._watched(engine.process, ADDRESS, killed)

    def kill_worker(self, place: int) -> None:
        """kill -9, and at once the next."""
        killed = self._kill(self.workers[place])
        self.workers[place] = self._worker(place)
        self._watched(self.workers[place], READY, killed)

    def _kill(self, process: Process) -> float:
        if not process.alive:
            self.chronicle.refused.append(f"ended by itself: {process.log_text()}")
        now = self.chronicle.killed[process.pid] = time.monotonic()
        process.kill()
        return now

    async def stop(self) -> None:
        """Stop all processes: workers first, so that they can return their leases."""
        await asyncio.gather(*(self._stop(process) for process in self.workers))
        await asyncio.gather(*(self._stop(engine.process) for engine in self.engines))

    async def _stop(self, process: Process) -> None:
        try:
            code = await asyncio.to_thread(process.stop, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        if code != 0:
            self.chronicle.slow_stops.append(
                f"{process.log.name}: {'too slow' if code is None else f'exit code {code}'}"
            )

    def abandon(self) -> None:
        """Leave no process behind."""
        for process in (*self.workers, *(engine.process for engine in self.engines)):
            process.end()
