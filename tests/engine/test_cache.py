"""The cache of runs is bounded in bytes, and its count of bytes is that of the runs it holds."""

import random

import pytest

from assay.core.model.errors import Invalid
from assay.core.model.events import StartData
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.limits import CACHE_BYTES, TAIL_BYTES
from assay.core.model.payload import Payload
from assay.core.model.requests import Signal, StartWorkflow
from assay.core.model.run import Run
from assay.core.model.sizes import RUN_BYTES, run_bytes
from assay.engine.commit.cache import RunCache, cache_bytes
from tests.engine.noting_worker import NotingWorker

MAIN = Namespace("main")
LARGE = Payload(b'"%s"' % (b"x" * 1_900_000))


def run_of(name: str, size: int = 0) -> Run:
    start = StartData("T", "main", RunId(name))
    return Run(MAIN, WorkflowId(name), RunId(name), 1, start, 0, memo=Payload(b"x" * size))


def counted(cache: RunCache) -> int:
    return sum(run_bytes(run) for run in cache._runs.values())


def test_runs_leave_in_order_of_use_when_bytes_run_out():
    cache = RunCache(1_000, 4 * RUN_BYTES + 100_000)
    small, large = run_of("small"), run_of("large", 60_000)
    cache.put(small)
    cache.put(large)
    cache.put(small)
    cache.put(run_of("next", 60_000))
    cache.trim()
    assert (small.run_id in cache, large.run_id in cache, len(cache)) == (True, False, 2)
    assert cache.held_bytes == counted(cache)


def test_a_run_that_is_larger_than_the_cache_is_not_kept():
    cache = RunCache(1_000, 50_000)
    cache.put(run_of("huge", 60_000))
    cache.trim()
    assert (len(cache), cache.held_bytes) == (0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_the_count_of_bytes_follows_all_that_happens(seed: int):
    chance = random.Random(seed)  # noqa: S311  # the same on every run
    cache = RunCache(20, 200_000)
    for _ in range(300):
        name = f"run-{chance.randrange(40)}"
        known = cache.get(RunId(name))
        match chance.randrange(5):
            case 0 if known is not None:
                cache.drop(known)
            case 1 if known is not None:
                known.memo = Payload(b"x" * chance.randrange(40_000))
                cache.put(known)
            case 2 if chance.random() < 0.02:
                cache.clear()
            case _:
                cache.put(run_of(name, chance.randrange(40_000)))
        cache.trim()
        assert cache.held_bytes == counted(cache) <= 200_000


@pytest.mark.parametrize(("text", "wanted"), [("", CACHE_BYTES), (" 1048576 ", 1_048_576), ("0", 0)])
def test_the_environment_sets_the_bytes(text: str, wanted: int):
    assert cache_bytes({"ASSAY_CACHE_BYTES": text}) == wanted


@pytest.mark.parametrize("text", ["64MiB", "-1", "1e6", "\u0663"])
def test_a_setting_that_is_no_number_is_refused(text: str):
    with pytest.raises(Invalid, match="ASSAY_CACHE_BYTES"):
        cache_bytes({"ASSAY_CACHE_BYTES": text})


def test_large_inputs_and_signals_are_left_to_the_store(with_engine):
    async def body(engine, clock):
        started = [
            await engine.submit(
                StartWorkflow(namespace=MAIN, workflow_id=WorkflowId(f"a-{number}"), workflow_type="T", input=LARGE)
            )
            for number in range(5)
        ]
        for answer in started:
            await engine.submit(Signal(MAIN, answer.key.workflow_id, name="large", payload=LARGE))
        cache = engine._committer.cache
        assert len(cache) == 5
        assert cache.held_bytes < 5 * (RUN_BYTES + TAIL_BYTES)
        worker = NotingWorker(tasks=5)
        engine.add_worker(worker)
        while len(worker.grants) < 5:
            worker.given.clear()
            await worker.given.wait()
        assert [grant.tail for grant in worker.grants] == [None] * 5  # a worker reads these events from the store

    with_engine(body)
