"""A program takes the same steps in every process, wherever its objects are in memory."""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.sdk.workflow.replay.determinism import UnorderedError
from assay.sdk.workflow.replay.loop import WorkflowLoop

LAYOUTS = 6
Program = Callable[[list[Any]], Coroutine[Any, Any, Any]]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


class Timers:
    def __init__(self) -> None:
        self.pending: dict[int, float] = {}
        self.started = 0
        self.time = 1_700_000_000.0

    def start_timer(self, delay_seconds: float) -> int:
        self.started += 1
        self.pending[self.started] = self.time + delay_seconds
        return self.started

    def cancel_timer(self, seq: int) -> None:
        del self.pending[seq]

    def now(self) -> float:
        return self.time


def trace_of(chosen: Program, new_loop: Callable[[Timers], WorkflowLoop] = WorkflowLoop) -> list[Any]:
    """The log of a program whose timers fire when they are due."""
    timers = Timers()
    loop = new_loop(timers)
    log: list[Any] = []
    task = loop.create_task(chosen(log))
    loop.run_until_blocked()
    while timers.pending:
        seq = min(timers.pending, key=lambda seq: (timers.pending[seq], seq))
        timers.time = timers.pending.pop(seq)
        log.append(("fired", seq))
        loop.fire_timer(seq)
        loop.run_until_blocked()
    task.result()
    loop.drop()
    return log


async def step(log: list[Any], name: Any, seconds: float = 0) -> Any:
    log.append(("started", name))
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        log.append(("cancelled", name))
        raise
    log.append(("ended", name))
    return name


@program
async def waits(log: list[Any]) -> None:
    tasks = [asyncio.create_task(step(log, name, name % 3)) for name in range(40)]
    while tasks:
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        log.append([task.result() for task in done])
        log.append([task.get_name() for task in pending])
        tasks = list(pending)


@program
async def groups(log: list[Any]) -> None:
    async def failing() -> None:
        await asyncio.sleep(1)
        raise ValueError

    for _ in range(3):
        try:
            async with asyncio.TaskGroup() as group:
                for name in range(23):
                    group.create_task(step(log, name, 2 if name % 5 else 0))
                group.create_task(failing())
        except* ValueError:
            log.append("failed")


@program
async def bare_coroutines_as_completed(log: list[Any]) -> None:
    for earliest in asyncio.as_completed([step(log, name) for name in range(50)]):
        log.append(await earliest)


@program
async def tasks_as_completed(log: list[Any]) -> None:
    tasks = [asyncio.create_task(step(log, name)) for name in range(50)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for earliest in asyncio.as_completed(tasks):
        log.append(await earliest)


@program
async def coroutines_and_futures_as_completed(log: list[Any]) -> None:
    tasks = [asyncio.create_task(step(log, name, 1)) for name in range(20)]
    mixed = [*tasks, *(step(log, name) for name in range(20, 40))]
    for earliest in asyncio.as_completed(tuple(mixed)):
        log.append(await earliest)


@program
async def gatherings_in_sets(log: list[Any]) -> None:
    names = {asyncio.gather(step(log, name), step(log, -name)): name for name in range(1, 30)}
    done, _ = await asyncio.wait(names)
    log.append([names[gathering] for gathering in done])
    log.append([names[gathering] for gathering in set(names)])


@program
async def futures_in_sets(log: list[Any]) -> None:
    loop = asyncio.get_running_loop()
    names = {loop.create_future(): name for name in range(30)}
    for future in set(names):
        log.append(names[future])
        loop.call_soon(future.set_result, None)
    shielded = {asyncio.shield(future): name for future, name in names.items()}
    done, _ = await asyncio.wait(shielded)
    log.append([shielded[future] for future in done])


@program
async def queues_and_locks(log: list[Any]) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(3)
    lock, limit = asyncio.Lock(), asyncio.Semaphore(2)

    async def worker(name: int) -> None:
        while True:
            job = await queue.get()
            async with limit:
                await step(log, (name, job), job % 2)
            async with lock:
                log.append(job)
            queue.task_done()

    workers = {asyncio.create_task(worker(name)) for name in range(7)}
    for job in range(40):
        await queue.put(job)
    await queue.join()
    for task in workers:
        task.cancel()
        log.append(task.get_name())
    log.append(len(await asyncio.gather(*workers, return_exceptions=True)))


def shuffle_the_heap(seed: int) -> list[Any]:
    """Leaves holes of many sizes, so that what comes next lands in another order."""
    chance = random.Random(seed)  # noqa: S311 - chance for a test
    blocks = [bytearray(chance.randrange(16, 2_000)) for _ in range(chance.randrange(2_000, 20_000))]
    coroutines = [asyncio.sleep(0) for _ in range(chance.randrange(100, 1_000))]
    chance.shuffle(coroutines)
    for coroutine in coroutines:
        coroutine.close()
    return chance.sample(blocks, len(blocks) // 2)


SCRIPT = """
import json, sys
from tests.sdk.workflow.replay import test_determinism as here
held = here.shuffle_the_heap(int(sys.argv[1]))
print(json.dumps({name: here.trace_of(program) for name, program in here.PROGRAMS.items()}))
print(json.dumps(here.play_on_a_stock_loop(here.bare_coroutines_as_completed)))
"""


@pytest.fixture(scope="module")
def elsewhere() -> list[list[Any]]:
    """The logs of all programs in processes with different heaps, and one of asyncio's own loop to compare."""
    return [[json.loads(line) for line in _output(seed).splitlines()] for seed in range(LAYOUTS)]


def _output(seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT, str(seed)]
    return subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout  # noqa: S603 - our own


def play_on_a_stock_loop(chosen: Program) -> list[Any]:
    log: list[Any] = []
    asyncio.run(chosen(log))
    return log


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_process_takes_the_same_steps(name: str, elsewhere: list[list[Any]]):
    here = json.loads(json.dumps(trace_of(PROGRAMS[name])))
    assert len(here) > 10
    for logs, _ in elsewhere:
        assert logs[name] == here


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_run_in_a_process_takes_the_same_steps(name: str):
    first = trace_of(PROGRAMS[name])
    for seed in range(LAYOUTS):
        held = shuffle_the_heap(seed)
        assert trace_of(PROGRAMS[name]) == first
        del held


def test_the_layouts_differ(elsewhere: list[list[Any]]):
    """asyncio's own loop fails the same test, so it does test something."""
    logs = [stock for _, stock in elsewhere]
    assert any(log != logs[0] for log in logs)


@settings(max_examples=50, deadline=None)
@given(
    delays=st.lists(st.integers(0, 3), min_size=2, max_size=30),
    rounds=st.integers(1, 4),
    when=st.sampled_from([asyncio.FIRST_COMPLETED, asyncio.ALL_COMPLETED]),
)
def test_any_fan_out_is_repeatable(delays: list[int], rounds: int, when: str):
    async def fanning_out(log: list[Any]) -> None:
        for _ in range(rounds):
            pending = {asyncio.create_task(step(log, number, delay)) for number, delay in enumerate(delays)}
            while pending:
                done, pending = await asyncio.wait(pending, return_when=when)
                log.append([task.get_name() for task in done])

    assert trace_of(fanning_out) == trace_of(fanning_out)


async def exhaust(given: Any) -> list[Any]:
    return [await earliest for earliest in asyncio.as_completed(given)]


@pytest.mark.parametrize("unordered", [iter, reversed, set])
def test_coroutines_without_an_order_are_refused(unordered: Callable[[list[Any]], Any]):
    async def main(log: list[Any]) -> None:
        coroutines = [step(log, name) for name in range(3)]
        try:
            with pytest.raises(UnorderedError, match=r"give it a list.*asyncio\.create_task"):
                await exhaust(unordered(coroutines))
        finally:
            for coroutine in coroutines:
                coroutine.close()

    assert trace_of(main) == []


def test_a_finished_task_among_bare_coroutines_is_refused():
    async def main(log: list[Any]) -> None:
        finished, coroutine = asyncio.create_task(step(log, "task")), step(log, "coroutine")
        await finished
        with pytest.raises(UnorderedError):
            await exhaust([finished, coroutine])

    trace_of(main)


def test_a_repeated_coroutine_is_one_task():
    async def main(log: list[Any]) -> None:
        coroutine = step(log, "once")
        log.append(await exhaust([coroutine, coroutine]))

    assert trace_of(main)[-1] == ["once"]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="asyncio lists the tasks in order of creation")
def test_all_tasks_is_refused():
    async def main(log: list[Any]) -> None:
        with pytest.raises(UnorderedError, match="keep your tasks in a list"):
            asyncio.all_tasks()

    trace_of(main)


def test_the_worker_may_list_its_own_tasks():
    loop = WorkflowLoop(Timers())
    loop.create_task(asyncio.sleep(5))
    loop.run_until_blocked()

    async def worker() -> bool:
        return asyncio.all_tasks() == {asyncio.current_task()}

    assert asyncio.run(worker())
    loop.drop()
