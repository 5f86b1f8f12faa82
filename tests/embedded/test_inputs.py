"""Calls that get another input from the code of today than from that of yesterday, on an engine in the process."""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay import Client
from tests.embedded.deployments import exchange, hashes


@pytest.mark.parametrize("kind", ["activity", "step", "child workflow"])
def test_swapped_calls_make_a_run_stuck(tmp_path: Path, kind: str):
    async def scenario() -> None:
        async with await Client.connect(f"sqlite://{tmp_path}/app.db") as client:
            await exchange(client, kind)

    asyncio.run(scenario())


@pytest.mark.parametrize(("kind", "shown"), [("step", '["{}"]'), ("child workflow", '"{}"')])
def test_events_show_the_hash_of_an_input(tmp_path: Path, kind: str, shown: str):
    async def scenario() -> None:
        async with await Client.connect(f"sqlite://{tmp_path}/app.db") as client:
            found = await hashes(client, kind)
        assert found == [hashlib.sha256(shown.format(shop).encode()).hexdigest()[:16] for shop in "AB"]

    asyncio.run(scenario())


def test_calls_in_the_order_of_a_set_make_a_run_stuck(tmp_path: Path):
    """A set of texts has another order in every process: its calls would get each other's results."""
    outputs = []
    for seed, until in (("1", "waiting_on"), ("2", "stuck")):
        done = subprocess.run(  # noqa: S603  # a program of these tests
            [sys.executable, "-m", "tests.embedded.deployments", f"sqlite://{tmp_path}/app.db", "prices", until],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        )
        outputs.append(json.loads(done.stdout))
    assert outputs[1]["reason"] == "non_determinism"
    assert "the history says activity 1 'price' with input " in outputs[1]["message"]
