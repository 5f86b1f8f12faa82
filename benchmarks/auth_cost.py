"""`python -m benchmarks.auth_cost`: what authentication costs, in pairs of runs with and without it.

W1 and W4 run on a server with no authentication, with an API key and with a token, in turn, so that a change of the
machine's speed reaches all of them alike. Compared are the medians of the CPU time of the engine per workflow and of
the rate or latency. Then 10,000 wrong keys are sent beside 10,000 right ones: a wrong key must not cost more CPU time,
and must not make another caller wait. The command ends with 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp
import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.contestants.children import child, free_port, listening
from benchmarks.environments import HOME
from benchmarks.matches import assay_server_command
from benchmarks.plan import QUEUED
from benchmarks.proc import tree_seconds
from benchmarks.process import running

MOST_COST = 1.05
"""The highest ratio of a run with authentication to a run without."""
KEY_VARIABLE = "ASSAY_API_KEY"
TOKEN_END = 4_102_444_800
"""The year 2100: no run of the benchmark takes longer."""
SIZES = {"W1": {"n": 3_000, "k": 1}, "W4": {"n": 800}}
SHOWN = {"W1": "workflows_per_s", "W4": "p50"}


class TokenIssuer:
    """An issuer of tokens on this machine."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        keys = json.dumps({"keys": [{**public, "kid": "k", "alg": "ES256", "use": "sig"}]}).encode()

        class Documents(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = keys if self.path == "/keys" else self.server.discovery  # type: ignore[attr-defined]
                self.send_response(200)
                self.send_header("Content-Length", str(len(found)))
                self.end_headers()
                self.wfile.write(found)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Documents)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        discovery = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        self._server.discovery = json.dumps(discovery).encode()  # type: ignore[attr-defined]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def token(self) -> str:
        """A token of an admin."""
        claims = {"iss": self.url, "aud": "assay", "sub": "bench", "exp": TOKEN_END}
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": "k"})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def generated_key(folder: Path) -> str:
    """A new admin key of the database in a folder."""
    backend = f"sqlite://{folder}/assay.db"
    command = [sys.executable, "-m", "assay.cli.main", "serve", "--generate-api-key", "--backend", backend]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


@contextmanager
def credential(mode: str, folder: Path, issuer: TokenIssuer) -> Iterator[list[str]]:
    """Set the credential of all processes for a mode; return the flags of the server."""
    flags, text = [], ""
    if mode == "api-key":
        flags, text = ["--auth-api-key"], generated_key(folder)
    elif mode == "jwt":
        flags, text = ["--auth-issuer", issuer.url, "--auth-audience", "assay"], issuer.token()
    os.environ[KEY_VARIABLE] = text
    try:
        yield flags
    finally:
        del os.environ[KEY_VARIABLE]


async def measured(mode: str, workload: str, issuer: TokenIssuer) -> tuple[float, float]:
    """The rate or latency of a workload, and the CPU time of the engine per workflow, in a mode."""
    with tempfile.TemporaryDirectory(dir=HOME) as name:
        folder = Path(name)
        with credential(mode, folder, issuer) as flags:
            async with running("assay", [*assay_server_command(folder), *flags], folder) as contestant:
                size = SIZES[workload]
                await contestant.ask(workload, QUEUED, {**size, "n": size["n"] // 5})
                found = await contestant.ask(workload, QUEUED, size)
    if "error" in found:
        raise SystemExit(f"{workload} with {mode}: {found['error']}")
    measures = found["measures"]
    return float(measures[SHOWN[workload]]), float(measures["engine_cpu_us"])


async def measure_workloads(pairs: int, issuer: TokenIssuer) -> bool:
    """Print W1 and W4 for each mode; return whether all bounds hold."""
    sound = True
    for workload in SIZES:
        found: dict[str, list[tuple[float, float]]] = {"no-auth": [], "api-key": [], "jwt": []}
        for _ in range(pairs):
            for mode, measures in found.items():
                measures.append(await measured(mode, workload, issuer))
        plain = statistics.median(cpu for _, cpu in found["no-auth"])
        for mode, measures in found.items():
            cpu = statistics.median(each for _, each in measures)
            shown = statistics.median(each for each, _ in measures)
            ratio = cpu / plain
            sound = sound and ratio <= MOST_COST
            print(
                f"{workload} {mode:8} {shown:10,.2f} {SHOWN[workload]:16} {cpu:8.1f} µs CPU of the engine, {ratio:.3f}"
            )
    return sound


async def measure_keys(count: int) -> bool:
    """Send wrong keys and right keys; print and compare the CPU time of each, and the latency of another caller."""
    with tempfile.TemporaryDirectory(dir=HOME) as name:
        folder, port = Path(name), free_port()
        key = generated_key(folder)
        command = ["-m", "assay.cli.main", "serve", "--port", str(port), "--auth-api-key"]
        backend = ["--backend", f"sqlite://{folder}/assay.db"]
        async with child([sys.executable, *command, *backend], folder / "engine.log") as engine:
            await listening(engine, port)
            url = f"http://127.0.0.1:{port}/api/v1/workflows/nobody"
            costs: dict[str, float] = {}
            for kind in ("right", "wrong", "right", "wrong"):
                costs[kind], late = await _send_keys(url, kind == "wrong", key, count // 2, engine.pid)
                print(f"{count // 2:,} {kind} keys: {costs[kind]:.0f} µs CPU each; another caller's p99 {late:.1f} ms")
    return costs["wrong"] <= costs["right"]


async def _send_keys(url: str, wrong: bool, key: str, count: int, engine: int) -> tuple[float, float]:
    """The CPU time of the engine per request in µs, and the p99 of a caller with a right key meanwhile, in ms."""
    left, waits = iter(range(count)), list[float]()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=65)) as session:

        async def send() -> None:
            for _ in left:
                text = f"assay_{secrets.token_hex(32)}" if wrong else key
                async with session.get(url, headers={"Authorization": f"Bearer {text}"}) as answer:
                    assert answer.status in ((401, 429) if wrong else (404,)), answer.status
                    await answer.read()

        async def watch() -> None:
            while True:
                began = perf_counter()
                async with session.get(url, headers={"Authorization": f"Bearer {key}"}) as answer:
                    assert answer.status == 404, answer.status
                waits.append((perf_counter() - began) * 1_000)
                await asyncio.sleep(0.02)

        before = tree_seconds([engine])
        watching = asyncio.ensure_future(watch())
        await asyncio.gather(*(send() for _ in range(64)))
        watching.cancel()
        spent = tree_seconds([engine]) - before
    each = spent / (count + len(waits)) * 1e6
    return each, statistics.quantiles(waits, n=100)[98] if len(waits) > 1 else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="runs of each workload and mode")
    parser.add_argument("--keys", type=int, default=10_000, help="wrong keys, and right ones")
    parser.add_argument("--only", choices=("workloads", "keys"), help="one part only")
    options = parser.parse_args()
    HOME.mkdir(exist_ok=True)
    issuer = TokenIssuer()
    sound = True
    try:
        if options.only != "keys":
            sound = asyncio.run(measure_workloads(options.pairs, issuer))
        if options.only != "workloads":
            sound = asyncio.run(measure_keys(options.keys)) and sound
    finally:
        issuer.close()
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
