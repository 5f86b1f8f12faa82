"""Daemon threads: started when needed, at most as many as allowed, and not joined at the end."""

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from assay.sdk.worker.threads import DaemonThreads
from tests.sdk.worker.support import on_loop

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


@on_loop
async def test_a_job_runs_in_a_daemon_thread_and_its_outcome_comes_back():
    threads = DaemonThreads(2)
    thread = await threads.submit(threading.current_thread)
    assert thread.daemon
    assert thread is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        await threads.submit(lambda: 1 / 0)
    threads.close()


@on_loop
async def test_an_idle_thread_is_used_again():
    threads = DaemonThreads(5)
    first = await threads.submit(threading.get_ident)
    for _ in range(10):
        assert await threads.submit(threading.get_ident) == first
    threads.close()


@on_loop
async def test_there_are_never_more_threads_than_allowed_and_jobs_wait_their_turn():
    threads, go_on, running = DaemonThreads(2), threading.Event(), []

    def job(number: int) -> int:
        running.append(threading.get_ident())
        go_on.wait(5)
        return number

    jobs = [threads.submit(job, number) for number in range(6)]
    while len(running) < 2:  # threads tell nobody
        await asyncio.sleep(0.001)
    assert len(set(running)) == 2
    go_on.set()
    assert await asyncio.gather(*jobs) == list(range(6))
    assert len(set(running)) == 2
    threads.close()


@on_loop
async def test_the_callers_context_goes_along():
    threads = DaemonThreads(1)
    tenant.set("ada")
    assert await threads.submit(tenant.get) == "ada"
    tenant.set("bob")
    assert await threads.submit(tenant.get) == "bob"
    threads.close()


@on_loop
async def test_what_cannot_be_raised_through_a_future_is_told_otherwise():
    threads = DaemonThreads(1)

    def stops() -> Any:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.submit(stops)
    threads.close()


@on_loop
async def test_a_caller_that_gave_up_is_not_told():
    threads, go_on = DaemonThreads(1), threading.Event()

    async def late() -> None:
        raise AssertionError("never awaited")

    job = threads.submit(lambda: go_on.wait(5) and late())
    job.cancel()
    go_on.set()
    assert await threads.submit(lambda: "next") == "next"
    threads.close()


def test_a_loop_that_is_closed_is_not_told_either():
    threads, go_on, done = DaemonThreads(1), threading.Event(), threading.Event()

    def job() -> None:
        go_on.wait(5)
        done.set()

    async def leave() -> None:
        threads.submit(job).cancel()

    asyncio.run(leave())
    go_on.set()
    assert done.wait(5)
    threads.close()


@on_loop
async def test_idle_threads_end_when_the_pool_is_closed():
    threads = DaemonThreads(3)
    workers = await asyncio.gather(*(threads.submit(threading.current_thread) for _ in range(3)))
    threads.close()
    for worker in set(workers):
        worker.join(5)
        assert not worker.is_alive()
