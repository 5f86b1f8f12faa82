"""`RunawayError` ends a turn that never returns, and never reaches code outside of a turn."""

import asyncio
import contextlib
import random
import threading
import time

import pytest

from assay.core.model.errors import AssayError, RunawayError
from assay.sdk.workflow.replay.blocking import run_blocking
from assay.sdk.workflow.replay.loop import WorkflowLoop
from assay.sdk.workflow.replay.workflow_flag import FLAG


class NoTimers:
    def start_timer(self, delay_seconds: float) -> int:
        raise NotImplementedError

    def cancel_timer(self, seq: int) -> None:
        raise NotImplementedError

    def now(self) -> float:
        return 0.0


async def spinning() -> None:
    while True:
        pass


async def spinning_in_a_greenlet() -> None:
    def spin() -> None:
        while True:
            pass

    await run_blocking(spin)


async def cleaning_up_without_end() -> None:
    try:
        await spinning()
    finally:
        while True:
            pass


def interrupted_soon(loop: WorkflowLoop, times: int = 1) -> threading.Thread:
    def interrupt() -> None:
        for _ in range(times):
            while not loop.is_running():
                threading.Event().wait(0.001)
            threading.Event().wait(0.02)
            assert loop.interrupt("at that line")

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


def test_it_is_an_error_of_assay_that_can_be_made_without_arguments():
    assert issubclass(RunawayError, AssayError)
    assert "ctx.run" in str(RunawayError())


@pytest.mark.parametrize("code", [spinning, spinning_in_a_greenlet])
def test_a_turn_that_never_returns_is_ended(code):
    loop = WorkflowLoop(NoTimers())
    task = loop.create_task(code())
    thread = interrupted_soon(loop)
    assert not loop.run_until_blocked()
    thread.join()
    assert isinstance(task.exception(), RunawayError)
    assert loop.interrupted == "at that line"


def test_a_finally_block_that_never_returns_is_ended_too():
    loop = WorkflowLoop(NoTimers())
    task = loop.create_task(cleaning_up_without_end())
    thread = interrupted_soon(loop, times=2)
    loop.run_until_blocked()
    loop.drop()
    thread.join()
    assert task.done()


def test_a_turn_that_has_ended_is_not_interrupted():
    loop = WorkflowLoop(NoTimers())
    loop.run_until_blocked()
    assert not loop.interrupt("too late")
    assert loop.interrupted is None


def test_an_exception_on_its_way_never_reaches_code_after_the_turn():
    """Turns of a few microseconds, interrupted at any moment of them and between them."""
    chance = random.Random(7)  # noqa: S311  # the same walk each time
    over, box, interrupts = threading.Event(), [WorkflowLoop(NoTimers())], [0]

    def interrupt() -> None:
        while not over.is_set():
            loop = box[0]
            if loop.interrupted is None:  # once: between two exceptions the watchdog waits for a second
                interrupts[0] += loop.interrupt("again")
            threading.Event().wait(chance.random() / 10_000)

    async def working() -> None:
        sum(range(chance.randrange(2_000)))

    thread = threading.Thread(target=interrupt)
    thread.start()
    outside = 0
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        loop = box[0] = WorkflowLoop(NoTimers())
        try:
            loop.create_task(working())
            with contextlib.suppress(RunawayError):
                loop.run_until_blocked()
            sum(range(200))
        except RunawayError:
            outside += 1
        assert (FLAG.inside, asyncio._get_running_loop()) == (False, None)
        loop.drop()
    over.set()
    thread.join()
    assert (outside, interrupts[0] > 20) == (0, True)
