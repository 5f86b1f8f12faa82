"""Many wrong keys cost the engine no more than right ones, and slow nobody else down."""

import asyncio
import bisect
import math
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import aiohttp
import psutil
import pytest

from assay.auth.api_keys import PREFIX_DIGITS, NewKey, key_text
from assay.auth.key_ring import KeyRing
from tests.api.browsers import Keyed
from tests.api.support import Server, serving

CALLS = 10_000
CONNECTIONS = 64
TIMED_CALLS = 2_000
NEARNESS = (True, False) * TIMED_CALLS


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, "--auth-api-key") as server:
        yield server


def processor_seconds(server: Server) -> float:
    times = psutil.Process(server.process.pid).cpu_times()
    return float(times.user + times.system)


async def send(url: str, keys: Sequence[str]) -> set[int]:
    """Call with each key; the statuses of the answers."""
    statuses: set[int] = set()
    waiting = iter(keys)

    async def caller(session: aiohttp.ClientSession) -> None:
        for key in waiting:
            async with session.get(url, headers={"Authorization": f"Bearer {key}"}) as answer:
                await answer.read()
                statuses.add(answer.status)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS)) as session:
        await asyncio.gather(*(caller(session) for _ in range(CONNECTIONS)))
    return statuses


async def waits(url: str, key: str, stop: asyncio.Event) -> list[float]:
    """Call with a right key again and again, one call at a time; how long each took."""
    found: list[float] = []
    async with aiohttp.ClientSession() as session:
        while not stop.is_set() or len(found) < 100:
            began = time.monotonic()
            async with session.get(url, headers={"Authorization": f"Bearer {key}"}) as answer:
                assert answer.status == 200
                await answer.read()
            found.append(time.monotonic() - began)
    return found


@pytest.mark.quiet
def test_wrong_keys_cost_no_more_than_right_ones(server: Server):
    keyed = Keyed(server)
    url = f"http://127.0.0.1:{server.port}/api/v1/namespaces"
    assert asyncio.run(send(url, [keyed.admin] * 500)) == {200}  # both begin with a warm engine
    began = processor_seconds(server)
    assert asyncio.run(send(url, [keyed.admin] * CALLS)) == {200}
    right, began = processor_seconds(server) - began, processor_seconds(server)
    assert asyncio.run(send(url, [f"assay_{secrets.token_hex(32)}" for _ in range(CALLS)])) <= {401, 429}
    wrong = processor_seconds(server) - began
    assert wrong < right * 1.2, (wrong, right)


@pytest.mark.quiet
def test_wrong_keys_slow_nobody_down(server: Server):
    keyed = Keyed(server)
    url = f"http://127.0.0.1:{server.port}/api/v1/namespaces"

    async def beside(keys: Sequence[str]) -> float:
        """The usual time of a caller with a right key, while others call with these keys."""
        stop = asyncio.Event()
        patient = asyncio.ensure_future(waits(url, keyed.admin, stop))
        await send(url, keys)
        stop.set()
        return statistics.median(await patient)

    among_right = asyncio.run(beside([keyed.admin] * (CALLS // 5)))
    among_wrong = asyncio.run(beside([f"assay_{secrets.token_hex(32)}" for _ in range(CALLS // 5)]))
    assert among_wrong < among_right * 1.5 + 0.005, (among_wrong, among_right)


def largest_gap(one: Sequence[float], other: Sequence[float]) -> float:
    """The statistic of Kolmogorov and Smirnov: the largest gap between two distributions."""
    first, second = sorted(one), sorted(other)
    points = sorted({*first, *second})
    return max(
        abs(bisect.bisect_right(first, at) / len(first) - bisect.bisect_right(second, at) / len(second))
        for at in points
    )


def near(key: str) -> str:
    """A key that differs in its last digit."""
    return key[:-1] + secrets.choice([digit for digit in "0123456789abcdef" if digit != key[-1]])


def of_prefix(key: str) -> str:
    """A key with the same prefix."""
    return key[: len("assay_") + PREFIX_DIGITS] + secrets.token_hex(28)


@pytest.mark.quiet
@pytest.mark.parametrize("guess", [near, of_prefix])
def test_the_time_of_a_refusal_does_not_tell_whether_a_key_is_near(guess: Callable[[str], str]):
    """Guesses around stored keys against the same guesses around keys that are not stored."""
    # many keys: the digits of a single one change the time of the check of its form
    stored, absent = ([key_text(secrets.token_bytes(32)) for _ in range(200)] for _ in range(2))
    ring = KeyRing()
    ring.load([NewKey().stored(key, 0) for key in stored], 1, 0)

    def gap() -> float:
        guesses = [(is_near, guess(secrets.choice(stored if is_near else absent))) for is_near in NEARNESS]
        secrets.SystemRandom().shuffle(guesses)  # a slow moment of the machine hits both alike
        times: dict[bool, list[float]] = {True: [], False: []}
        for is_near, key in guesses:
            began = time.perf_counter_ns()
            found = ring.find(key, 0)
            times[is_near].append(time.perf_counter_ns() - began)
            assert found is None
        return largest_gap(times[True], times[False])

    # equal distributions exceed the bound in one of a hundred measurements
    assert min(gap() for _ in range(3)) < 1.63 * math.sqrt(2 / TIMED_CALLS)


def test_all_refusals_of_a_key_have_the_same_body(server: Server):
    keyed = Keyed(server)
    wrong = (f"assay_{'0' * 64}", keyed.admin[:-1] + ("0" if keyed.admin[-1] != "0" else "1"), "x", keyed.admin.upper())
    replies = [server.http().get("/workflows", Authorization=f"Bearer {key}") for key in wrong]
    shown = [{name: value for name, value in reply.json().items() if name != "request_id"} for reply in replies]
    assert shown == [shown[0]] * len(wrong)
    assert {reply.status for reply in replies} == {401}
