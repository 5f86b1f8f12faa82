import asyncio
import contextvars
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from greenlet import GreenletExit

from assay.sdk.workflow.replay.blocking import run_blocking, wait
from assay.sdk.workflow.replay.loop import WorkflowLoop
from assay.sdk.workflow.replay.workflow_flag import WorkflowIOError


class Timers:
    def __init__(self) -> None:
        self.started: list[float] = []

    def start_timer(self, delay_seconds: float) -> int:
        self.started.append(delay_seconds)
        return len(self.started)

    def cancel_timer(self, seq: int) -> None: ...

    def now(self) -> float:
        return 1_700_000_000.0


class CancelRequested(asyncio.CancelledError):
    pass


@pytest.fixture
def loop() -> WorkflowLoop:
    return WorkflowLoop(Timers())


def start(loop: WorkflowLoop, function: Callable[..., Any], *args: Any) -> asyncio.Task[Any]:
    task = loop.create_task(run_blocking(function, *args))
    loop.run_until_blocked()
    return task


def test_a_handler_that_never_waits_just_returns(loop: WorkflowLoop):
    assert start(loop, lambda left, right: left + right, 1, 2).result() == 3


def test_a_handler_waits_for_futures_coroutines_and_timers(loop: WorkflowLoop):
    future = loop.create_future()

    async def doubling(number: int) -> int:
        await asyncio.sleep(0)
        return number * 2

    def handler() -> list[Any]:
        return [wait(future), wait(doubling(4)), wait(asyncio.sleep(3, "slept"))]

    task = start(loop, handler)
    assert not task.done()
    future.set_result(1)
    loop.run_until_blocked()
    assert loop.fire_timer(1)
    loop.run_until_blocked()
    assert task.result() == [1, 8, "slept"]


def test_exceptions_cross_both_ways(loop: WorkflowLoop):
    future = loop.create_future()

    def handler() -> None:
        try:
            wait(future)
        except KeyError as error:
            raise ValueError("from the handler") from error

    task = start(loop, handler)
    future.set_exception(KeyError("from outside"))
    loop.run_until_blocked()
    error = task.exception()
    assert isinstance(error, ValueError)
    assert isinstance(error.__cause__, KeyError)
    assert error.__traceback__ is not None


def test_a_cancel_is_raised_where_the_handler_waits(loop: WorkflowLoop):
    log: list[Any] = []

    def handler() -> None:
        try:
            wait(loop.create_future())
        except asyncio.CancelledError as error:
            log.append(error.args)
            wait(asyncio.sleep(0))
            log.append("cleaned up")
            raise

    task = start(loop, handler)
    task.cancel("please")
    loop.run_until_blocked()
    assert task.cancelled()
    assert log == [("please",), "cleaned up"]


def test_a_cancel_of_our_own_kind_keeps_its_type(loop: WorkflowLoop):
    future = loop.create_future()

    def handler() -> str:
        try:
            wait(future)
        except CancelRequested:
            return "cancel requested"
        return "done"

    task = start(loop, handler)
    future.set_exception(CancelRequested())
    loop.run_until_blocked()
    assert task.result() == "cancel requested"


def test_a_handler_may_wait_deep_in_its_calls(loop: WorkflowLoop):
    def descend(depth: int) -> int:
        if depth == 0:
            return wait(asyncio.sleep(0, 1))
        return descend(depth - 1) + sum(descend(0) for _ in range(2))

    assert start(loop, descend, 10).result() == 21


def test_handlers_take_turns(loop: WorkflowLoop):
    log: list[tuple[str, int]] = []

    def handler(name: str) -> None:
        for step in range(3):
            log.append((name, step))
            wait(asyncio.sleep(0))

    tasks = [loop.create_task(run_blocking(handler, name)) for name in "abc"]
    loop.run_until_blocked()
    assert all(task.done() for task in tasks)
    assert log == [(name, step) for step in range(3) for name in "abc"]


def test_handlers_end_in_any_order(loop: WorkflowLoop):
    futures = [loop.create_future() for _ in range(4)]

    def handler(number: int) -> int:
        return wait(futures[number]) + wait(asyncio.sleep(0, 1))

    tasks = [start(loop, handler, number) for number in range(4)]
    for number in (2, 0, 3, 1):
        futures[number].set_result(number * 10)
        loop.run_until_blocked()
    assert [task.result() for task in tasks] == [1, 11, 21, 31]


def test_blocking_handlers_nest(loop: WorkflowLoop):
    def inner(number: int) -> int:
        return wait(asyncio.sleep(0, number)) + 1

    def outer() -> int:
        return wait(run_blocking(inner, 1)) + wait(asyncio.gather(run_blocking(inner, 10), run_blocking(inner, 20)))[1]

    assert start(loop, outer).result() == 23


def test_blocking_and_async_code_share_queues(loop: WorkflowLoop):
    queue: asyncio.Queue[int] = asyncio.Queue()

    def consumer() -> int:
        return wait(queue.get()) + wait(queue.get())

    async def producer() -> None:
        for number in (1, 2):
            await asyncio.sleep(0)
            await queue.put(number)

    task = start(loop, consumer)
    loop.create_task(producer())
    loop.run_until_blocked()
    assert task.result() == 3


def test_a_handler_is_part_of_its_task(loop: WorkflowLoop):
    current = contextvars.ContextVar("current", default="nothing")
    loop.context.run(current.set, "the run")

    def handler() -> tuple[str, str, bool]:
        before = current.get()
        task = asyncio.current_task()
        wait(asyncio.sleep(0))
        current.set("the handler")
        return before, wait(asking()), task is asyncio.current_task() is not None

    async def asking() -> str:
        return current.get()

    async def main() -> tuple[Any, str]:
        return await run_blocking(handler), current.get()

    task = loop.create_task(main())
    loop.run_until_blocked()
    assert task.result() == (("the run", "the handler", True), "the handler")


def test_the_guard_holds_for_handlers_too(loop: WorkflowLoop):
    def handler() -> None:
        wait(asyncio.sleep(0))
        Path(__file__).read_text()

    assert isinstance(start(loop, handler).exception(), WorkflowIOError)


def test_only_a_blocking_handler_can_block(loop: WorkflowLoop):
    async def main() -> None:
        wait(asyncio.sleep(0))

    task = loop.create_task(main())
    loop.run_until_blocked()
    with pytest.raises(RuntimeError, match="use `await`"):
        task.result()
    with pytest.raises(RuntimeError, match="only a workflow handler"):
        wait(asyncio.sleep(0))


def test_async_code_that_a_handler_waits_for_cannot_block(loop: WorkflowLoop):
    async def inner() -> None:
        wait(asyncio.sleep(0))

    task = start(loop, lambda: wait(inner()))
    with pytest.raises(RuntimeError, match="use `await`"):
        task.result()


def test_handlers_of_a_worker_s_run_leave_its_loop_alone(loop: WorkflowLoop):
    async def worker() -> None:
        outer = asyncio.current_task()
        future = loop.create_future()
        task = start(loop, lambda: wait(future))
        assert asyncio.current_task() is outer
        await asyncio.sleep(0)
        future.set_result("done")
        loop.run_until_blocked()
        assert task.result() == "done"

    asyncio.run(worker())


def test_leaving_ends_the_handler(loop: WorkflowLoop, capfd: pytest.CaptureFixture[str]):
    log: list[Any] = []

    def handler() -> None:
        try:
            wait(loop.create_future())
        except BaseException as error:
            log.append(type(error))
            raise
        finally:
            try:
                wait(asyncio.sleep(1))
            finally:
                log.append(("left", loop.leaving))

    start(loop, handler)
    loop.drop()
    assert log == [GreenletExit, ("left", True)]
    assert capfd.readouterr() == ("", "")


def test_leaving_swallows_what_the_handler_raises(loop: WorkflowLoop):
    def handler() -> None:
        try:
            wait(loop.create_future())
        finally:
            raise ValueError("nobody hears this")

    start(loop, handler)
    loop.drop()


def test_leaving_gives_up_on_a_handler_that_never_ends(loop: WorkflowLoop, capfd: pytest.CaptureFixture[str]):
    attempts: list[str] = []

    def stubborn() -> None:
        while True:
            attempts.append("again")
            try:
                wait(loop.create_future())
            except BaseException:  # noqa: BLE001, S112 - what a careless retry loop looks like
                continue

    start(loop, stubborn)
    loop.drop()
    gc.collect()
    assert 1 < len(attempts) < 1_000
    assert capfd.readouterr() == ("", "")


def test_a_dropped_handler_is_freed():
    class Held:
        pass

    held = Held()
    reference = weakref.ref(held)
    loop = WorkflowLoop(Timers())

    def handler(local: Held) -> None:
        wait(asyncio.sleep(1))
        assert local

    task = start(loop, handler, held)
    references = [reference, weakref.ref(task), weakref.ref(loop)]
    del task, held
    gc.collect()
    assert reference() is not None
    loop.drop()
    del loop
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]
