"""Calls that get another input from the code of today than from that of yesterday, over HTTP and on both stores."""

import asyncio
import hashlib

import pytest

from assay import Client
from tests.embedded.deployments import exchange, hashes
from tests.http.processes import Server


@pytest.mark.parametrize("kind", ["activity", "step", "child workflow"])
def test_swapped_calls_make_a_run_stuck(engine: Server, kind: str):
    async def scenario() -> None:
        async with await Client.connect(engine.url) as client:
            await exchange(client, kind)

    asyncio.run(scenario())


@pytest.mark.parametrize(("kind", "shown"), [("step", '["{}"]'), ("child workflow", '"{}"')])
def test_events_show_the_hash_of_an_input(engine: Server, kind: str, shown: str):
    async def scenario() -> None:
        async with await Client.connect(engine.url) as client:
            found = await hashes(client, kind)
        assert found == [hashlib.sha256(shown.format(shop).encode()).hexdigest()[:16] for shop in "AB"]

    asyncio.run(scenario())
