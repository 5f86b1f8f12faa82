import asyncio
import contextlib
import contextvars
import gc
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from assay.sdk.workflow.replay import loop as loop_module
from assay.sdk.workflow.replay.completion import PausePoint
from assay.sdk.workflow.replay.loop import RunawayError, WorkflowLoop

START = 1_700_000_000.0


class Timers:
    """The runtime's part: numbers the timers, and moves the time by hand."""

    def __init__(self) -> None:
        self.time = START
        self.started: dict[int, float] = {}
        self.cancelled: list[int] = []

    def start_timer(self, delay_seconds: float) -> int:
        seq = len(self.started) + 1
        self.started[seq] = delay_seconds
        return seq

    def cancel_timer(self, seq: int) -> None:
        self.cancelled.append(seq)

    def now(self) -> float:
        return self.time


class Run:
    """A loop with its timers and a log that workflow code writes to."""

    def __init__(self, **options: Any) -> None:
        self.timers = Timers()
        self.loop = WorkflowLoop(self.timers, **options)
        self.log: list[Any] = []

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self.loop.create_task(coroutine)
        self.loop.run_until_blocked()
        return task

    def fire(self, seq: int) -> None:
        self.timers.time += self.timers.started[seq]
        assert self.loop.fire_timer(seq)
        self.loop.run_until_blocked()

    def settle(self, future: asyncio.Future[Any], result: Any = None) -> None:
        future.set_result(result)
        self.loop.run_until_blocked()


@pytest.fixture
def run() -> Run:
    return Run()


def test_gather_keeps_the_order_of_its_arguments(run: Run):
    async def napping(seconds: float) -> float:
        await asyncio.sleep(seconds)
        run.log.append(seconds)
        return seconds

    async def main() -> list[float]:
        return await asyncio.gather(napping(3), napping(1), napping(2))

    task = run.start(main())
    assert run.timers.started == {1: 3, 2: 1, 3: 2}
    for seq in (2, 3, 1):
        run.fire(seq)
    assert run.log == [1, 2, 3]
    assert task.result() == [3, 1, 2]


def test_gather_raises_the_first_exception(run: Run):
    async def failing() -> None:
        await asyncio.sleep(1)
        raise ValueError("no")

    task = run.start(_gathered(failing(), asyncio.sleep(5)))
    run.fire(1)
    assert isinstance(task.exception(), ValueError)


async def _gathered(*coroutines: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.gather(*coroutines)


def test_a_task_group_cancels_the_others_in_order(run: Run):
    async def member(name: str, seconds: float, *, fails: bool = False) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            run.log.append(name)
            raise
        if fails:
            raise ValueError(name)

    async def main() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for name in "abc":
                    group.create_task(member(name, 10))
                group.create_task(member("d", 1, fails=True))
        except* ValueError:
            run.log.append("failed")

    task = run.start(main())
    run.fire(4)
    assert task.done()
    assert run.log == ["a", "b", "c", "failed"]
    assert run.timers.cancelled == [1, 2, 3]


def test_wait_reports_the_first_to_complete(run: Run):
    async def main() -> tuple[int, int]:
        tasks = [asyncio.create_task(asyncio.sleep(seconds)) for seconds in (5, 1)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert done == {tasks[1]}
        assert pending == {tasks[0]}
        done, pending = await asyncio.wait(tasks, timeout=2)
        return len(done), len(pending)

    task = run.start(main())
    run.fire(2)
    assert run.timers.started == {1: 5, 2: 1, 3: 2}
    run.fire(3)
    assert task.result() == (1, 1)


def test_wait_for_gives_up_and_cancels(run: Run):
    async def slow() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            run.log.append("cleaned up")

    async def main() -> str:
        try:
            await asyncio.wait_for(slow(), 7)
        except TimeoutError:
            return "late"
        return "done"

    task = run.start(main())
    assert run.timers.started == {1: 7}
    run.fire(1)
    assert task.result() == "late"
    assert run.log == ["cleaned up"]
    assert run.timers.cancelled == []


def test_wait_for_in_time_cancels_its_timer(run: Run):
    future = run.loop.create_future()
    task = run.start(asyncio.wait_for(future, 7))
    run.settle(future, "result")
    assert task.result() == "result"
    assert run.timers.cancelled == [1]


def test_timeouts_are_durable_timers(run: Run):
    async def main() -> list[str]:
        outcomes = []
        for scope in (asyncio.timeout(0.1), asyncio.timeout_at(START + 60)):
            try:
                async with scope:
                    await asyncio.get_running_loop().create_future()
            except TimeoutError:
                outcomes.append("late")
        return outcomes

    task = run.start(main())
    assert run.timers.started == {1: 0.1}
    run.fire(1)
    assert run.timers.started == {1: 0.1, 2: 59.9}
    run.fire(2)
    assert task.result() == ["late", "late"]


def test_a_timeout_in_the_past_needs_no_timer(run: Run):
    async def main() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            return "late"
        return "done"

    assert run.start(main()).result() == "late"
    assert run.timers.started == {}


def test_queue(run: Run):
    async def consumer(queue: asyncio.Queue[int], name: str) -> None:
        while True:
            run.log.append((name, await queue.get()))
            queue.task_done()

    async def main() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue(2)
        consumers = [asyncio.create_task(consumer(queue, name)) for name in "ab"]
        for job in range(5):
            await queue.put(job)
        await queue.join()
        for task in consumers:
            task.cancel()

    assert run.start(main()).done()
    assert [job for _, job in run.log] == [0, 1, 2, 3, 4]


def test_event_lock_condition_semaphore_and_barrier(run: Run):
    async def worker(name: str, tools: dict[str, Any]) -> None:
        await tools["event"].wait()
        async with tools["lock"]:
            run.log.append(("lock", name))
            await asyncio.sleep(0)
        async with tools["semaphore"]:
            run.log.append(("semaphore", name))
            await asyncio.sleep(0)
        await tools["barrier"].wait()
        async with tools["condition"]:
            await tools["condition"].wait_for(lambda: tools["open"])
            run.log.append(("condition", name))

    async def main() -> None:
        tools = {
            "event": asyncio.Event(),
            "lock": asyncio.Lock(),
            "semaphore": asyncio.Semaphore(2),
            "barrier": asyncio.Barrier(4),
            "condition": asyncio.Condition(),
            "open": False,
        }
        tasks = [asyncio.create_task(worker(name, tools)) for name in "abc"]
        await asyncio.sleep(0)
        tools["event"].set()
        await tools["barrier"].wait()
        async with tools["condition"]:
            tools["open"] = True
            tools["condition"].notify_all()
        await asyncio.gather(*tasks)

    assert run.start(main()).done()
    assert [name for kind, name in run.log if kind == "lock"] == ["a", "b", "c"]
    assert sorted(name for kind, name in run.log if kind == "condition") == ["a", "b", "c"]


def test_sleeping_for_nothing_needs_no_timer(run: Run):
    async def main() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(-1)
        return await asyncio.sleep(0, "rested")

    assert run.start(main()).result() == "rested"
    assert run.timers.started == {}


def test_a_timer_fires_only_by_name(run: Run):
    task = run.start(asyncio.sleep(5, "slept"))
    run.timers.time += 1_000
    run.loop.run_until_blocked()
    assert not task.done()
    assert run.loop.time() == START + 1_000
    assert run.loop.fire_timer(1)
    run.loop.run_until_blocked()
    assert task.result() == "slept"


def test_a_timer_may_fire_before_its_time(run: Run):
    task = run.start(asyncio.sleep(5, "slept"))
    assert run.loop.fire_timer(1)
    run.loop.run_until_blocked()
    assert task.result() == "slept"
    assert run.timers.time == START


def test_equal_delays_fire_in_the_order_of_the_history(run: Run):
    async def napping(name: str) -> None:
        await asyncio.sleep(1)
        run.log.append(name)

    run.start(_gathered(napping("a"), napping("b")))
    run.loop.fire_timer(2)
    run.loop.fire_timer(1)
    run.loop.run_until_blocked()
    assert run.log == ["b", "a"]


def test_callbacks_by_time(run: Run):
    loop = run.loop
    loop.call_later(0, run.log.append, "at once")
    loop.call_later(-1, run.log.append, "in the past")
    loop.call_at(START, run.log.append, "now")
    handle = loop.call_at(START + 0.1, run.log.append, "later")
    assert handle.when() == pytest.approx(START + 0.1)
    loop.run_until_blocked()
    assert run.log == ["at once", "in the past", "now"]
    assert run.timers.started == {1: 0.1}
    run.fire(1)
    assert run.log[-1] == "later"


def test_a_cancelled_handle_cancels_its_timer_once(run: Run):
    handle = run.loop.call_later(3, run.log.append, "never")
    handle.cancel()
    handle.cancel()
    assert run.timers.cancelled == [1]
    assert not run.loop.fire_timer(1)
    run.loop.run_until_blocked()
    assert run.log == []


def test_a_handle_cancelled_after_its_timer_fired_does_not_run(run: Run):
    handle = run.loop.call_later(3, run.log.append, "never")
    assert run.loop.fire_timer(1)
    handle.cancel()
    run.loop.run_until_blocked()
    assert run.log == []
    assert run.timers.cancelled == []


def test_shield_survives_the_cancel_of_its_waiter(run: Run):
    future = run.loop.create_future()

    async def inner() -> None:
        run.log.append(await future)

    async def main() -> None:
        await asyncio.shield(inner())

    task = run.start(main())
    task.cancel()
    run.loop.run_until_blocked()
    assert task.cancelled()
    run.settle(future, "finished")
    assert run.log == ["finished"]


def test_as_completed_follows_the_history(run: Run):
    async def napping(seconds: int) -> int:
        return await asyncio.sleep(seconds, seconds)

    async def main() -> list[int]:
        return [await earliest for earliest in asyncio.as_completed([napping(3), napping(1), napping(2)])]

    task = run.start(main())
    assert run.timers.started == {1: 3, 2: 1, 3: 2}
    for seq in (3, 1, 2):
        run.fire(seq)
    assert task.result() == [2, 3, 1]


def test_as_completed_times_out(run: Run):
    async def main() -> str:
        try:
            for earliest in asyncio.as_completed([asyncio.sleep(5), asyncio.sleep(6)], timeout=1):
                await earliest
        except TimeoutError:
            return "late"
        return "done"

    task = run.start(main())
    assert sorted(run.timers.started.values()) == [1, 5, 6]
    run.fire(next(seq for seq, delay in run.timers.started.items() if delay == 1))
    assert task.result() == "late"


def test_async_generators(run: Run):
    async def counting() -> Any:
        for number in range(3):
            await asyncio.sleep(0)
            yield number

    async def main() -> list[int]:
        return [number async for number in counting()]

    assert run.start(main()).result() == [0, 1, 2]


def test_an_abandoned_generator_is_finalized_when_the_run_leaves(run: Run):
    async def counting() -> Any:
        try:
            for number in itertools.count():
                yield number
        finally:
            run.log.append(("closed", run.loop.leaving))

    async def main() -> None:
        async for _ in counting():
            break
        gc.collect()

    assert run.start(main()).done()
    assert run.log == []
    run.loop.drop()
    assert run.log == [("closed", True)]


def test_abandoned_generators_can_be_closed_on_request(run: Run):
    async def counting() -> Any:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            run.log.append("closed")

    async def main() -> None:
        async for _ in counting():
            break
        await asyncio.get_running_loop().shutdown_asyncgens()

    assert run.start(main()).done()
    assert run.log == ["closed"]


def test_a_cancel_reaches_the_coroutine_and_can_be_refused(run: Run):
    async def main() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as error:
            run.log.append(error.args)
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        await asyncio.sleep(1)
        return "stayed"

    task = run.start(main())
    task.cancel("please")
    run.loop.run_until_blocked()
    assert run.log == [("please",)]
    run.fire(1)
    assert task.result() == "stayed"


def test_cancelling_a_sleep_cancels_its_timer(run: Run):
    task = run.start(asyncio.sleep(9))
    task.cancel()
    run.loop.run_until_blocked()
    assert task.cancelled()
    assert run.timers.cancelled == [1]


def test_context_variables_of_the_run_are_seen_everywhere(run: Run):
    current = contextvars.ContextVar("current", default="the worker")
    run.loop.context.run(current.set, "the run")

    async def child() -> str:
        await asyncio.sleep(0)
        return current.get()

    async def main() -> list[str]:
        seen = [current.get(), await asyncio.create_task(child())]
        asyncio.get_running_loop().call_soon(lambda: seen.append(current.get()))
        await asyncio.sleep(0)
        current.set("the task")
        return seen

    assert run.start(main()).result() == ["the run", "the run", "the run"]
    run.loop.call_soon(lambda: run.log.append(current.get()))
    run.loop.run_until_blocked()
    assert run.log == ["the run"]
    assert current.get() == "the worker"


def test_tasks_are_named_by_their_number_in_the_run(run: Run):
    async def named() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    async def main() -> list[str]:
        return [await asyncio.create_task(named()), await asyncio.create_task(named(), name="mine")]

    assert run.start(main()).result() == ["Task-2", "mine"]


def test_a_worker_s_own_loop_does_not_notice(run: Run):
    future = run.loop.create_future()

    async def workflow() -> str:
        assert asyncio.get_running_loop() is run.loop
        run.log.append(asyncio.current_task())
        async with asyncio.timeout(5):
            await future
        return "done"

    async def worker() -> None:
        outer_loop, outer_task = asyncio.get_running_loop(), asyncio.current_task()
        task = run.start(workflow())
        assert run.log == [task]
        for _ in range(2):
            assert asyncio.get_running_loop() is outer_loop
            assert asyncio.current_task() is outer_task
            assert asyncio.current_task(outer_loop) is outer_task
            async with asyncio.timeout(5):
                await asyncio.create_task(asyncio.sleep(0))
            if not future.done():
                run.settle(future)
        assert task.result() == "done"

    asyncio.run(worker())


def test_a_callback_of_the_worker_s_loop_may_drive(run: Run):
    async def worker() -> None:
        future = asyncio.get_running_loop().create_future()
        task = run.loop.create_task(asyncio.sleep(0, "done"))

        def drive() -> None:
            run.loop.run_until_blocked()
            future.set_result(task.result())

        asyncio.get_running_loop().call_soon(drive)
        assert await future == "done"

    asyncio.run(worker())


def test_generators_of_worker_and_workflow_do_not_mix(run: Run):
    async def counting(owner: str) -> Any:
        try:
            yield 1
            yield 2
        finally:
            run.log.append(owner)

    async def workflow() -> None:
        async for _ in counting("workflow"):
            await asyncio.get_running_loop().create_future()

    async def worker() -> None:
        hooks = sys.get_asyncgen_hooks()
        run.start(workflow())
        assert sys.get_asyncgen_hooks() == hooks
        async for _ in counting("worker"):
            break

    asyncio.run(worker())
    assert run.log == ["worker"]
    run.loop.drop()
    assert run.log == ["worker", "workflow"]


def test_runs_take_turns_on_one_thread():
    first, second = Run(), Run()

    async def main(run: Run) -> str:
        assert asyncio.get_running_loop() is run.loop
        await asyncio.sleep(1)
        assert asyncio.get_running_loop() is run.loop
        return "done"

    tasks = [run.start(main(run)) for run in (first, second)]
    second.fire(1)
    assert [task.done() for task in tasks] == [False, True]
    first.fire(1)
    assert [task.result() for task in tasks] == ["done", "done"]


def test_pause_leaves_the_rest_ready(run: Run):
    async def step(name: str) -> None:
        run.log.append(name)
        if name == "b":
            run.loop.pause()
        await asyncio.sleep(0)
        run.log.append(name.upper())

    for name in "abc":
        run.loop.create_task(step(name))
    assert run.loop.run_until_blocked() is False
    assert run.log == ["a", "b"]
    assert run.loop.run_until_blocked() is True
    assert run.log == ["a", "b", "c", "A", "B", "C"]


def test_a_paused_coroutine_goes_on_first_and_leaves_no_trace():
    def recorded_steps(speculative: bool) -> list[Any]:
        run = Run()
        points: list[asyncio.Future[None]] = []

        async def recording() -> None:
            run.log.append("before")
            if speculative:
                points.append(PausePoint(run.loop))
                run.loop.pause()
                await points[0]
            run.log.append("after")

        async def other() -> None:
            run.log.append(hash(asyncio.get_running_loop().create_future()))

        for coroutine in (other(), recording(), other()):
            run.loop.create_task(coroutine)
        assert run.loop.run_until_blocked() is not speculative
        if speculative:
            assert run.log == [1, "before"]
            run.loop.resume_first(points[0])
            assert run.loop.run_until_blocked()
        return run.log

    assert recorded_steps(speculative=True) == recorded_steps(speculative=False) == [1, "before", "after", 2]


def test_code_that_never_waits_is_stopped(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loop_module, "HANDLE_LIMIT", 5_000)

    async def spinning() -> None:
        while True:
            await asyncio.sleep(0)

    run.loop.create_task(spinning())
    with pytest.raises(RunawayError, match="ran 5,000 callbacks without ever waiting"):
        run.loop.run_until_blocked()
    assert asyncio._get_running_loop() is None
    run.loop.drop()


def test_code_that_runs_too_long_is_stopped():
    ticks = itertools.count()
    run = Run(clock=lambda: float(next(ticks)), time_limit_seconds=1.5)

    async def spinning() -> None:
        assert run.loop.busy_since is not None
        while True:
            await asyncio.sleep(0)

    run.loop.create_task(spinning())
    with pytest.raises(RunawayError, match=r"over 1\.5 s"):
        run.loop.run_until_blocked()
    assert run.loop.busy_since is None


def test_what_a_callback_raises_is_kept_for_the_runtime(run: Run):
    run.loop.call_soon(lambda: 1 / 0)
    run.loop.call_soon(run.log.append, "went on")
    run.loop.run_until_blocked()
    assert [type(error) for error in run.loop.errors] == [ZeroDivisionError]
    assert run.log == ["went on"]


def test_failed_tasks_are_kept_for_the_runtime_whatever_is_freed(run: Run):

    async def failing() -> None:
        raise ValueError("unheard")

    async def main() -> None:
        task = asyncio.create_task(failing())
        await asyncio.wait([task])

    run.start(main())
    for _ in range(20):  # finished tasks are let go from time to time
        run.start(asyncio.sleep(0))
    gc.collect()
    assert [str(task.exception()) for task in run.loop.failed] == ["unheard"]
    assert run.loop.errors == []


def test_leaving_the_process_passes_through(run: Run):
    async def main() -> None:
        sys.exit(3)

    task = run.loop.create_task(main())
    with pytest.raises(SystemExit):
        run.loop.run_until_blocked()
    assert asyncio._get_running_loop() is None
    assert isinstance(task.exception(), SystemExit)


def test_another_thread_is_refused(run: Run):
    refused: list[BaseException] = []

    def elsewhere() -> None:
        try:
            run.loop.call_soon_threadsafe(run.log.append, "never")
        except RuntimeError as error:
            refused.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "activity or in ctx.run" in str(refused[0])
    run.loop.call_soon_threadsafe(run.log.append, "same thread")
    run.loop.run_until_blocked()
    assert run.log == ["same thread"]


def test_the_loop_cannot_be_driven_from_inside(run: Run):
    async def main() -> None:
        for forbidden in (run.loop.run_until_blocked, run.loop.drop, run.loop.stop, run.loop.run_forever):
            with pytest.raises(RuntimeError):
                forbidden()
        with pytest.raises(RuntimeError, match="driven by its worker"):
            run.loop.set_task_factory(asyncio.Task)

    run.start(main()).result()


def test_a_task_that_nobody_holds_is_not_collected(run: Run):
    async def forgotten() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            run.log.append("closed")

    async def main() -> None:
        asyncio.create_task(forgotten())  # noqa: RUF006 - that is the point

    run.start(main())
    gc.collect()
    assert run.log == []
    run.loop.drop()
    assert run.log == ["closed"]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="asyncio keeps tasks in a list")
def test_the_first_tasks_of_many_runs_do_not_collide_in_asyncio_s_set():
    everything = asyncio.tasks._scheduled_tasks if sys.version_info >= (3, 12) else asyncio.tasks._all_tasks
    runs = [Run() for _ in range(50)]
    tasks = {id(run.start(asyncio.sleep(1))) for run in runs}
    hashes = {hash(reference) for reference in everything.data if id(reference()) in tasks}
    assert len(hashes) == 50
    for run in runs:
        run.loop.drop()


def test_finished_tasks_are_let_go(run: Run):
    class Result:
        pass

    async def main() -> list[weakref.ref[Result]]:
        async def child() -> Result:
            return Result()

        return [weakref.ref(await asyncio.create_task(child())) for _ in range(100)]

    alive = [reference for reference in run.start(main()).result() if reference() is not None]
    assert len(alive) <= 10


def test_drop_runs_finally_blocks_newest_first(run: Run):
    async def holding(name: str) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            run.log.append((name, run.loop.leaving))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for name in "ab":
                group.create_task(holding(name))

    run.start(main())
    assert not run.loop.leaving
    run.loop.drop()
    assert run.log == [("b", True), ("a", True)]
    assert run.loop.is_closed()
    run.loop.drop()


def test_nothing_done_while_leaving_reaches_the_runtime(run: Run):
    async def main() -> None:
        try:
            async with asyncio.timeout(60):
                await asyncio.sleep(30)
        finally:
            run.loop.call_soon(run.log.append, "never")
            for attempt in (lambda: run.loop.call_later(1, print), lambda: run.loop.create_task(asyncio.sleep(1))):
                with pytest.raises(RuntimeError, match="evicted from its worker"):
                    attempt()
            run.log.append("refused")
            await asyncio.sleep(5)

    run.start(main())
    run.loop.drop()
    assert run.log == ["refused"]
    assert run.timers.started == {1: 60, 2: 30}
    assert run.timers.cancelled == []


def test_drop_swallows_what_finally_blocks_raise(run: Run):
    async def raising(error: BaseException) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise error

    for error in (ValueError("no"), SystemExit(3), asyncio.CancelledError()):
        run.start(raising(error))
    run.loop.drop()


def test_drop_is_silent_about_what_never_started(run: Run, capfd: pytest.CaptureFixture[str]):
    async def nothing() -> None: ...

    async def main() -> None:
        later = [nothing(), nothing()]
        await asyncio.sleep(60)
        for coroutine in (*later, nothing()):
            await coroutine

    run.start(main())
    run.loop.create_task(nothing())
    run.loop.create_task(main())
    run.loop.drop()
    gc.collect()
    assert capfd.readouterr() == ("", "")


def test_drop_is_silent_about_failures_nobody_retrieved(run: Run, capfd: pytest.CaptureFixture[str]):
    async def failing() -> None:
        raise ValueError("unheard")

    run.start(failing())
    run.loop.create_future().set_exception(ValueError("unheard"))
    run.loop.drop()
    del run.loop
    gc.collect()
    assert capfd.readouterr() == ("", "")


def test_drop_gives_up_on_coroutines_that_never_close(run: Run, capfd: pytest.CaptureFixture[str]):
    async def stubborn() -> None:
        while run.log == []:
            with contextlib.suppress(BaseException):
                await asyncio.get_running_loop().create_future()

    run.start(stubborn())
    run.loop.drop()
    gc.collect()
    assert capfd.readouterr() == ("", "")
    run.log.append("end")  # or it would still be at it when the process ends


def test_late_outcomes_are_ignored(run: Run):
    future = run.loop.create_future()

    async def main() -> None:
        run.log.append(await future)

    unawaited = run.loop.create_future()
    unawaited.add_done_callback(run.log.append)
    run.start(main())
    run.loop.drop()
    future.set_result("late")
    unawaited.set_result("late")
    run.loop.run_until_blocked()
    assert run.log == []
    assert not run.loop.fire_timer(1)


PARKED: dict[str, Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, Any]]] = {}


def parked(program: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, Any]]) -> None:
    PARKED[program.__name__] = program


@parked
async def on_a_future(loop: asyncio.AbstractEventLoop) -> None:
    await loop.create_future()


@parked
async def on_a_timer(loop: asyncio.AbstractEventLoop) -> None:
    async with asyncio.timeout(5):
        await asyncio.sleep(9)


@parked
async def on_a_gathering(loop: asyncio.AbstractEventLoop) -> None:
    await asyncio.gather(loop.create_future(), asyncio.sleep(1))


@parked
async def on_a_group(loop: asyncio.AbstractEventLoop) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(1))
        group.create_task(asyncio.Event().wait())  # type: ignore[arg-type]


@parked
async def on_a_task(loop: asyncio.AbstractEventLoop) -> None:
    await asyncio.shield(asyncio.create_task(asyncio.sleep(1)))


@parked
async def on_several(loop: asyncio.AbstractEventLoop) -> None:
    await asyncio.wait([loop.create_future(), asyncio.create_task(asyncio.sleep(1))])


@pytest.mark.parametrize("program", PARKED.values(), ids=PARKED)
def test_a_dropped_run_is_freed(program: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, Any]]):
    run = Run()
    task = run.start(program(run.loop))
    assert not task.done()
    references = [weakref.ref(task), weakref.ref(run.loop), weakref.ref(run.timers)]
    gc.collect()
    run.loop.drop()
    del task, run
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="futures also know who awaits them, which is a circle")
@pytest.mark.parametrize("name", ["on_a_future", "on_a_timer", "on_a_gathering"])
def test_the_usual_run_is_freed_without_the_collector(name: str):
    run = Run()
    run.timers.loop = run.loop  # type: ignore[attr-defined]  # the runtime knows its loop, and the loop its runtime
    task = run.start(PARKED[name](run.loop))
    references = [weakref.ref(task), weakref.ref(run.loop), weakref.ref(run.timers)]
    gc.collect()
    gc.disable()
    try:
        run.loop.drop()
        del task, run
        assert [reference() for reference in references] == [None, None, None]
    finally:
        gc.enable()
