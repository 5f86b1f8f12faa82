"""`python -m benchmarks.bounds [--against TREE]`: what large payloads and many readers of events cost one engine.

Three parts: `open`, the memory of an engine with many open runs that have large inputs; `list`, its peak while such
runs are listed by one caller and by four at once; `readers`, starts a second while clients follow the stream of events.
With `--against` both checkouts take turns, so that a busy machine changes for both.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import HOME, ROOT
from benchmarks.proc import PROC, resident_bytes, tree_seconds

PAYLOAD_BYTES = 1_900_000
CALLERS = 32
MEGABYTE = 1_000_000
OPEN_MEGABYTES = 200
LIST_MEGABYTES = 100
OWN_SHARE, OTHER_SHARE = 0.5, 0.85
"""Of the starts a second without readers: what must be left with readers of the same and of another namespace."""
PARTS = ("open", "list", "readers")


@dataclass(frozen=True)
class Sizes:
    """How much of everything; the defaults are those of the requirements."""

    open_runs: int = 500
    listed_runs: int = 150
    payload_bytes: int = PAYLOAD_BYTES
    starts: int = 1_000
    readers: tuple[int, ...] = (0, 100, 490)
    rounds: int = 3


class Served:
    """One engine with a database of its own, and what a client needs of it."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def resident(self) -> int:
        """Return the memory that the engine holds now."""
        return resident_bytes(self.process.pid)

    def forget_peak(self) -> None:
        """Begin to measure the peak anew."""
        (PROC / str(self.process.pid) / "clear_refs").write_text("5", encoding="ascii")

    def peak(self) -> int:
        """Return the most memory that the engine has held since `forget_peak`."""
        status = (PROC / str(self.process.pid) / "status").read_text(encoding="ascii")
        found = re.search(r"VmHWM:\s*(\d+)", status)
        return 0 if found is None else int(found[1]) * 1024


@contextlib.contextmanager
def served(tree: Path) -> Iterator[Served]:
    """Serve a new SQLite file with the code of a checkout."""
    HOME.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bounds-", dir=HOME) as folder:
        command = [sys.executable, "-m", "assay", "serve", "--port", "0", "--backend", f"sqlite://{folder}/bounds.db"]
        environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{ROOT}"}
        with subprocess.Popen(  # noqa: S603  # its own arguments
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                yield Served(process, _port_of(process))
            finally:
                process.terminate()


def _port_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"http://[^:]+:(\d+)/", line)
        if found is not None:
            return int(found[1])
    raise SystemExit("the engine did not start")


class Caller:
    """A keep-alive connection that sends one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, method: str, path: str, body: bytes = b"") -> int:
        """Send a request and read its answer to the end; return the size of the body."""
        head = f"{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        size = int(re.search(rb"content-length: (\d+)", answer)[1])  # type: ignore[index]  # all answers have one
        left = size
        while left:
            left -= len(await self._reader.read(min(left, 1 << 20)))
        if not answer.startswith(b"HTTP/1.1 2"):
            raise SystemExit(f"{method} {path}: {answer[:80].decode()}")
        return size

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


@contextlib.asynccontextmanager
async def calling(port: int, count: int) -> AsyncIterator[list[Caller]]:
    """Connect callers for the time of the block."""
    callers = [Caller(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)) for _ in range(count)]
    try:
        yield callers
    finally:
        for caller in callers:
            caller.close()


async def start_runs(port: int, count: int, callers: int, payload_bytes: int = 0, namespace: str = "main") -> float:
    """Start runs by some callers at once; return the seconds that it took."""
    numbers = iter(range(count))
    text = "x" * payload_bytes

    async def go_on(caller: Caller) -> None:
        for number in numbers:
            body = {"workflow_type": "Bounds", "workflow_id": f"bounds-{number}-{time.monotonic_ns()}", "input": text}
            await caller.ask("POST", f"/workflows?namespace={namespace}", json.dumps(body).encode())

    async with calling(port, callers) as connected:
        began = time.perf_counter()
        await asyncio.gather(*map(go_on, connected))
        return time.perf_counter() - began


# the parts


def measure_open(tree: Path, sizes: Sizes) -> dict[str, float]:
    """Return the memory of an engine without runs, and with open runs that have large inputs."""
    with served(tree) as engine:
        idle = engine.resident()
        asyncio.run(start_runs(engine.port, sizes.open_runs, 4, sizes.payload_bytes))
        return {"idle_mb": idle / MEGABYTE, "rss_mb": engine.resident() / MEGABYTE}


def measure_list(tree: Path, sizes: Sizes) -> dict[str, float]:
    """Return the peaks above the memory before: of one list, and of four at once."""
    with served(tree) as engine:
        asyncio.run(start_runs(engine.port, sizes.listed_runs, 4, sizes.payload_bytes))
        found = {"idle_mb": engine.resident() / MEGABYTE}
        for callers in (1, 4):
            before = engine.resident()
            engine.forget_peak()
            found[f"bytes_{callers}_mb"] = asyncio.run(_list(engine.port, callers)) / MEGABYTE
            found[f"above_{callers}_mb"] = (engine.peak() - before) / MEGABYTE
        return found


async def _list(port: int, callers: int) -> int:
    async with calling(port, callers) as connected:
        return sum(await asyncio.gather(*(caller.ask("GET", "/workflows?limit=10000") for caller in connected)))


def measure_readers(tree: Path, sizes: Sizes, readers: int, namespace: str) -> tuple[float, float]:
    """Return starts a second in `main` while clients follow the events of a namespace, and engine CPU seconds a start.

    The CPU time hardly depends on what else the machine does, which the rate does.
    """
    with served(tree) as engine, _reading(engine.port, readers, namespace):
        asyncio.run(start_runs(engine.port, sizes.starts // 10, CALLERS))
        before = tree_seconds([engine.process.pid])
        took = asyncio.run(start_runs(engine.port, sizes.starts, CALLERS))
        return sizes.starts / took, (tree_seconds([engine.process.pid]) - before) / sizes.starts


@contextlib.contextmanager
def _reading(port: int, count: int, namespace: str) -> Iterator[None]:
    """Read in a process of its own: on this one's loop the readers would measure themselves."""
    if not count:
        yield
        return
    command = [sys.executable, "-m", "benchmarks.bounds", "--drain", f"{port},{count},{namespace}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  # its own
        assert process.stdout is not None
        if process.stdout.readline().strip() != "reading":
            raise SystemExit("the readers could not connect")
        try:
            yield
        finally:
            process.terminate()


def drain(port: int, count: int, namespace: str) -> None:
    """Open event streams and read from them until the process is ended."""
    selector, room = selectors.DefaultSelector(), bytearray(1 << 16)
    request = f"GET /api/v1/events/stream?namespace={namespace} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    for _ in range(count):
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(request)
        if b" 200 " not in client.recv(15):
            raise SystemExit("no stream")
        client.setblocking(False)
        selector.register(client, selectors.EVENT_READ)
    print("reading", flush=True)
    while True:
        for key, _ in selector.select():
            with contextlib.suppress(BlockingIOError):
                if key.fileobj.recv_into(room) == 0:  # type: ignore[union-attr]  # all are sockets
                    raise SystemExit("a stream has ended")


# the report


def report(trees: Sequence[tuple[str, Path]], sizes: Sizes, parts: Sequence[str]) -> int:
    """Measure and print; return 1 if this checkout misses a requirement."""
    missed = 0
    if "open" in parts:
        for name, tree in trees:
            found = measure_open(tree, sizes)
            runs = f"{sizes.open_runs} open runs of {sizes.payload_bytes:,} bytes"
            print(f"{name:8} {runs}: {found['rss_mb']:.0f} MB (idle {found['idle_mb']:.0f} MB)", flush=True)
            missed += name == "here" and found["rss_mb"] > OPEN_MEGABYTES
    if "list" in parts:
        for name, tree in trees:
            found = measure_list(tree, sizes)
            peaks = ", ".join(
                f"{callers} at once {found[f'above_{callers}_mb']:.0f} MB for {found[f'bytes_{callers}_mb']:.0f} MB"
                for callers in (1, 4)
            )
            print(f"{name:8} list of {sizes.listed_runs} runs, peak above idle: {peaks}", flush=True)
            missed += name == "here" and found["above_1_mb"] > LIST_MEGABYTES
    if "readers" in parts:
        missed += _report_readers(trees, sizes)
    return 1 if missed else 0


def _report_readers(trees: Sequence[tuple[str, Path]], sizes: Sizes) -> int:
    missed = 0
    found: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    for _ in range(sizes.rounds):
        for count in sizes.readers:
            for namespace in ("main", "other") if count else ("main",):
                for name, tree in trees:
                    measured = measure_readers(tree, sizes, count, namespace)
                    found.setdefault((name, namespace, count), []).append(measured)
    for (name, namespace, count), measures in sorted(found.items()):
        (rate, cpu), (alone, alone_cpu) = map(_medians, (measures, found[name, "main", 0]))
        whose = "the same" if namespace == "main" else "another"
        print(
            f"{name:8} {count:4} readers of {whose:8} namespace: {rate:6.0f} starts/s, {rate / alone:.0%};"
            f" engine {cpu * 1e6:5.0f} us of CPU a start, {cpu / alone_cpu:.2f} x",
            flush=True,
        )
        required = OWN_SHARE if namespace == "main" else OTHER_SHARE
        missed += name == "here" and count > 0 and rate < required * alone
    return missed


def _medians(measures: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(rate for rate, _ in measures), statistics.median(cpu for _, cpu in measures)


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounds", description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout of assay, measured in turn")
    parser.add_argument("--only", default=",".join(PARTS), help="some of: open, list, readers")
    parser.add_argument("--rounds", type=int, default=Sizes.rounds)
    parser.add_argument("--starts", type=int, default=Sizes.starts)
    parser.add_argument("--drain", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.drain:
        port, count, namespace = chosen.drain.split(",")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, int(count) + 64)), hard))
        drain(int(port), int(count), namespace)
    trees = [("here", ROOT)] if chosen.against is None else [("against", chosen.against.resolve()), ("here", ROOT)]
    return report(trees, Sizes(rounds=chosen.rounds, starts=chosen.starts), chosen.only.split(","))


if __name__ == "__main__":
    sys.exit(main())
