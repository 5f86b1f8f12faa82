"""`python -m benchmarks.pressure [PART ...]`: what callers of a server notice while its store is under pressure.

Five parts: `searches`, a timer of five seconds beside 60 searchers of 500,000 runs on Postgres; `wal`, the size of the
write-ahead log of a SQLite file beside searches and starts; `locked`, reads and a start while another process holds
the write lock of the file; `stranger`, the way of an event while another database of the same Postgres server has an
open transaction; `fsync`, reads while each fsync of the file takes 50 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from benchmarks.environments import HOME
from tests.temporary_postgres import create_database, temporary_postgres

RUNS = 500_000
LOAD_SECONDS = 20
LOCK_SECONDS = 3
EVENT_WAIT_SECONDS = 8
SEARCH = "/api/v1/workflows?text=nothing"
READS = ("/api/v1/version", "/api/v1/workflows")
MAX_READ_SECONDS = 0.05
"""How long a read may take while each fsync takes as long."""
WORKER = """
from assay import workflow

@workflow.define
async def Nap(ctx, seconds):
    await ctx.sleep(seconds)
"""
SLOW_FSYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
typedef int (*sync_call)(int);
int fsync(int file) { usleep(50000); return ((sync_call)dlsym(RTLD_NEXT, "fsync"))(file); }
int fdatasync(int file) { usleep(50000); return ((sync_call)dlsym(RTLD_NEXT, "fdatasync"))(file); }
"""
"""A library that goes before libc's: no other way makes a disk slow without the rights of root."""

Timing = tuple[int, float]
"""The status of an answer, and the seconds until it was complete."""


@contextlib.asynccontextmanager
async def serving(url: str, folder: Path, extra: Mapping[str, str] | None = None) -> AsyncIterator[Caller]:
    """Run a server on a free port for the time of the block."""
    log = folder / "serve.log"
    command = [sys.executable, "-m", "assay", "serve", "--port", "0", "--backend", url, "--no-auth"]
    with log.open("wb") as output:
        server = subprocess.Popen(  # noqa: ASYNC220, S603  # its own arguments, and nothing else runs yet
            command, stdout=output, stderr=output, cwd=folder, env={**os.environ, **(extra or {})}
        )
    try:
        while not (found := re.search(r"http://[\d.]+:(\d+)", log.read_text(encoding="utf-8"))):
            if server.poll() is not None:
                raise SystemExit(log.read_text(encoding="utf-8"))
            await asyncio.sleep(0.05)
        address = f"http://127.0.0.1:{found[1]}"
        async with aiohttp.ClientSession(address) as session:
            yield Caller(session, address)
    finally:
        server.terminate()
        server.wait()


class Caller:
    """A client of one server that notes how long answers take."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self.session = session
        self.address = address

    async def get(self, path: str) -> int:
        """Read a document; return the status of the answer."""
        async with self.session.get(path) as answer:
            await answer.read()
            return answer.status

    async def post(self, path: str, document: Mapping[str, object]) -> int:
        """Send a document; return the status of the answer."""
        async with self.session.post(path, json=document) as answer:
            await answer.read()
            return answer.status

    async def start(self, workflow_id: str, seconds: float = 5) -> int:
        """Start a workflow that sleeps; return the status of the answer."""
        return await self.post(
            "/api/v1/workflows", {"workflow_type": "Nap", "workflow_id": workflow_id, "input": seconds}
        )

    async def start_closed(self, workflow_id: str) -> None:
        """Start a workflow and terminate it: the model of many copies."""
        await self.start(workflow_id)
        await self.post(f"/api/v1/workflows/{workflow_id}/terminate", {})

    @contextlib.contextmanager
    def worker(self, folder: Path) -> Iterator[None]:
        """Run a worker of the server for the time of the block."""
        (folder / "naps.py").write_text(WORKER, encoding="utf-8")
        environment = {**os.environ, "ASSAY_ENGINE_URL": self.address}
        command = [sys.executable, "-m", "assay", "run", "naps.py"]
        process = subprocess.Popen(command, cwd=folder, env=environment)  # noqa: S603  # its own arguments
        try:
            yield
        finally:
            process.terminate()
            process.wait()


async def repeat(end: float, call: Callable[[], Awaitable[int]], timings: list[Timing], pause: float = 0.0) -> None:
    """Make a call again and again until `end`; a refused one after the second that a server asks for."""
    while time.monotonic() < end:
        begun = time.monotonic()
        status = await call()
        timings.append((status, time.monotonic() - begun))
        await asyncio.sleep(1 if status == 503 else pause)


def summary(timings: Sequence[Timing]) -> str:
    """Return the number of answers and refusals, and how long the median and the longest took."""
    seconds = sorted(taken for _, taken in timings) or [0.0]
    refused = sum(status == 503 for status, _ in timings)
    median, longest = seconds[len(seconds) // 2] * 1e3, seconds[-1] * 1e3
    return f"{len(timings)} requests, {refused} refused, p50 {median:.0f} ms, max {longest:.0f} ms"


def copies(columns: Sequence[str], series: str) -> str:
    """Return the statement that copies the closed run `model` under other ids, once for each number of a series."""
    changed = {"run_id": "'copy-' || n", "workflow_id": "'w' || n"}
    values = ", ".join(changed.get(name, name) for name in columns)
    return f"INSERT INTO runs ({', '.join(columns)}) SELECT {values} FROM runs, {series} WHERE workflow_id = 'model'"  # noqa: S608


async def measure_searches(folder: Path, runs: int) -> None:
    """Print how late a timer is beside 60 searchers on Postgres."""
    with temporary_postgres(folder=folder) as server:
        dsn = await create_database(server)
        async with serving(dsn, folder) as caller:
            await caller.start_closed("model")
            await _fill_postgres(dsn, runs)
            with caller.worker(folder):
                await caller.start("warm-up", 0)
                await caller.get("/api/v1/workflows/warm-up/result?wait_secs=20")
                timings: list[Timing] = []
                end = time.monotonic() + LOAD_SECONDS
                searchers = [repeat(end, lambda: caller.get(SEARCH), timings) for _ in range(60)]
                searching = asyncio.gather(*searchers)
                await asyncio.sleep(2)
                begun = time.monotonic()
                await caller.start("nap")
                while await caller.get("/api/v1/workflows/nap/result?wait_secs=25") != 200:
                    if time.monotonic() > begun + 120:
                        break
                print(f"sleep(5) beside 60 searchers of {runs:,} runs: {time.monotonic() - begun:.2f} s")
                await searching
                print(f"searches: {summary(timings)}", flush=True)


async def _fill_postgres(dsn: str, runs: int) -> None:
    connection = await asyncpg.connect(dsn)
    names = "SELECT column_name FROM information_schema.columns WHERE table_name = 'runs'"
    columns = [row[0] for row in await connection.fetch(names)]
    await connection.execute(copies(columns, f"generate_series(1, {runs}) AS n"))
    await connection.execute("ANALYZE")
    await connection.close()


async def measure_wal(folder: Path, runs: int) -> None:
    """Print the size of the write-ahead log beside six searchers and forty callers that start workflows."""
    file = folder / "app.db"
    async with serving(f"sqlite:///{file}", folder) as caller:
        await caller.start_closed("model")
    _fill_sqlite(file, runs)
    async with serving(f"sqlite:///{file}", folder) as caller:
        end, numbers = time.monotonic() + LOAD_SECONDS, itertools.count()
        searches: list[Timing] = []
        starts: list[Timing] = []
        searchers = [repeat(end, lambda: caller.get(SEARCH), searches) for _ in range(6)]
        starters = [repeat(end, lambda: caller.start(f"s{next(numbers)}"), starts) for _ in range(40)]
        await asyncio.gather(*searchers, *starters)
        size = _megabytes(folder / "app.db-wal")
        await asyncio.sleep(3)
        print(f"WAL {size:.0f} MB after {LOAD_SECONDS} s, {_megabytes(folder / 'app.db-wal'):.0f} MB 3 s later")
        print(f"starts: {summary(starts)}")
        print(f"searches: {summary(searches)}", flush=True)


def _fill_sqlite(file: Path, runs: int) -> None:
    connection = sqlite3.connect(file)
    columns = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info('runs')")]
    numbers = f"WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {runs}) SELECT n FROM s"  # noqa: S608
    connection.execute(copies(columns, f"({numbers}) AS n"))
    connection.commit()
    connection.close()


def _megabytes(file: Path) -> float:
    return file.stat().st_size / 1e6


async def measure_locked(folder: Path, _runs: int) -> None:
    """Print how long reads and a start take while another process holds the write lock of the file."""
    file = folder / "app.db"
    async with serving(f"sqlite:///{file}", folder) as caller:
        await caller.start("first")
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        timings: list[Timing] = []
        writing = asyncio.create_task(caller.start("second"))
        await repeat(begun + LOCK_SECONDS, lambda: caller.get(READS[0]), timings)
        other.execute("ROLLBACK")
        status = await writing
        print(f"start beside a lock of {LOCK_SECONDS} s: {status} after {time.monotonic() - begun:.2f} s")
        print(f"GET {READS[0]}: {summary(timings)}", flush=True)
        other.close()


async def measure_stranger(folder: Path, _runs: int) -> None:
    """Print how soon an event reaches its stream while another database has an open transaction."""
    with temporary_postgres(folder=folder) as server:
        dsn, elsewhere = await create_database(server), await create_database(server)
        async with serving(dsn, folder) as caller:
            other = await asyncpg.connect(elsewhere)
            await other.execute("BEGIN; CREATE TABLE t (i int)")
            async with caller.session.get("/api/v1/events/stream") as stream:
                await asyncio.sleep(0.5)
                begun = time.monotonic()
                await caller.start("a")
                try:
                    async with asyncio.timeout(EVENT_WAIT_SECONDS):
                        await _read_event(stream.content)
                    print(f"first event after {(time.monotonic() - begun) * 1e3:.0f} ms", flush=True)
                except TimeoutError:
                    print(f"no event within {EVENT_WAIT_SECONDS} s", flush=True)
            await other.close()


async def _read_event(lines: aiohttp.StreamReader) -> None:
    async for line in lines:
        if line.startswith(b"data:") and b'"a"' in line:
            return


async def measure_fsync(folder: Path, _runs: int) -> None:
    """Print how long reads take beside starts while each fsync takes 50 ms."""
    source, library = folder / "slow.c", folder / "slow.so"
    source.write_text(SLOW_FSYNC, encoding="utf-8")
    command = ["gcc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)  # noqa: ASYNC221, S603  # its own arguments, and nothing else runs yet
    async with serving(f"sqlite:///{folder / 'app.db'}", folder, {"LD_PRELOAD": str(library)}) as caller:
        end, numbers = time.monotonic() + LOAD_SECONDS, itertools.count()
        starts: list[Timing] = []
        reads: dict[str, list[Timing]] = {path: [] for path in READS}
        starters = [repeat(end, lambda: caller.start(f"s{next(numbers)}"), starts) for _ in range(4)]
        # Each path is bound now: a lambda would read the last one.
        readers = [repeat(end, _reading(caller, path), reads[path], pause=0.02) for path in READS]
        await asyncio.gather(*starters, *readers)
        print(f"starts: {summary(starts)}")
        for path, timings in reads.items():
            late = sum(taken > MAX_READ_SECONDS for _, taken in timings)
            print(f"GET {path}: {summary(timings)}, {late} above {MAX_READ_SECONDS * 1e3:.0f} ms", flush=True)


def _reading(caller: Caller, path: str) -> Callable[[], Awaitable[int]]:
    return lambda: caller.get(path)


PARTS: dict[str, Callable[[Path, int], Coroutine[Any, Any, None]]] = {
    "searches": measure_searches,
    "wal": measure_wal,
    "locked": measure_locked,
    "stranger": measure_stranger,
    "fsync": measure_fsync,
}


def measure(part: str, runs: int) -> None:
    """Measure one part with a database of its own, on a disk and not in a temporary folder, which may be memory."""
    HOME.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pressure-", dir=HOME) as folder:
        Path(folder).chmod(0o755)  # Postgres runs as another user
        print(f"{part}:", flush=True)
        asyncio.run(PARTS[part](Path(folder), runs))


def main() -> None:
    """Measure the given parts, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pressure", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}; all without one")
    parser.add_argument("--runs", type=int, default=RUNS, help="how many closed runs there are to search")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part: {', '.join(sorted(unknown))}")
    for part in options.parts or PARTS:
        measure(part, options.runs)


if __name__ == "__main__":
    main()
