"""Activities in processes: found by name, with heartbeats, and ended together with their worker."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.core.model.errors import Failure, Invalid, Kind
from assay.core.model.ids import SECOND
from assay.core.model.payload import NULL, Payload, value_of
from assay.core.model.policies import RetryPolicy
from assay.core.model.slots import Slots
from assay.sdk.app import App, Definition
from assay.sdk.values.converter import Converter
from assay.sdk.worker import processes as pool
from assay.sdk.worker.process_child import ProcessCall
from assay.sdk.worker.processes import Processes, RaisedInProcess, address_of
from assay.sdk.workflow.activity_context import ActivityInfo
from tests.sdk.worker import activities, exits_on_import
from tests.sdk.worker.support import on_loop


def defined(function: Any) -> Definition:
    app = App()
    app.activity(function.__name__, function, runs_in="process")
    return app.activities[function.__name__]


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def until(true: Any) -> Any:
    while not (found := true()):  # only the system knows
        await asyncio.sleep(0.005)
    return found


class Bench:
    """Processes, and calls of them as an engine with one counter would lease them."""

    def __init__(self, *functions: Any, limit: int = 1, **options: Any) -> None:
        self.slots = Slots()
        self.offered = 0
        self.beats: list[Any] = []
        self.processes = Processes(self.slots, limit, self._offer, **options)
        self.processes.start(map(defined, functions))

    def _offer(self) -> None:
        self.offered += 1

    async def call(self, function: Any, input: Any = None, number: int = 1, **fields: Any) -> Any:
        """Lease an attempt and run it."""
        definition = defined(function)
        self.slots.reserve(definition.name)
        info = ActivityInfo(definition.name, 1, 1, "w", "r", "W", "main", "default")
        fields = {"retry": RetryPolicy(), "input": Payload(Converter().encode(input)), **fields}
        call = ProcessCall(number, *address_of(definition), info, **fields)
        return value_of(await self.processes.call(call, 60 * SECOND, self._beat))

    def _beat(self, details: Payload) -> None:
        self.beats.append(None if details == NULL else value_of(details))

    async def ready(self, free: int = 1) -> None:
        await until(lambda: self.slots.processes >= free)


@asynccontextmanager
async def bench(*functions: Any, **options: Any) -> AsyncIterator[Bench]:
    """A bench whose processes are gone at the end."""
    made = Bench(*functions, **options)
    try:
        yield made
    finally:
        made.processes.close()
        await until(lambda: not made.processes.alive)


@pytest.fixture(autouse=True)
def engine() -> None:
    """No transport here, so one way is enough."""


@on_loop
async def test_a_slot_is_offered_when_a_process_is_ready_and_not_before():
    async with bench(activities.process_number, limit=2) as made:
        assert made.slots.process_activities == {"process_number"}
        assert (made.slots.processes, made.offered) == (0, 0)
        await made.ready()
        assert (made.slots.processes, made.offered) == (1, 1)
        found = await made.call(activities.process_number)
        assert found != os.getpid()
        await made.ready(2)
        assert await made.call(activities.process_number) != os.getpid()
        assert made.slots.processes == 2


@on_loop
async def test_there_are_no_processes_without_need_and_no_more_than_allowed():
    async with bench() as made:
        assert not made.processes.alive
    async with bench(activities.sleeps, limit=3) as made:
        calls = [asyncio.create_task(made.call(activities.sleeps, 0.3, number)) for number in range(1, 8)]
        while not all(call.done() for call in calls):
            assert len(made.processes._processes) <= 3
            await asyncio.sleep(0.01)
        await made.ready(3)
        assert made.slots.processes == 3


@on_loop
async def test_an_activity_that_was_registered_late_gets_its_turn():
    async with bench(activities.sleeps) as made:
        assert await made.call(activities.greets, "Ada") == "Hello, Ada!"
        assert made.slots.processes == 1
    async with bench() as made:
        assert await made.call(activities.greets, "Ada") == "Hello, Ada!"


@pytest.mark.parametrize("function", [lambda: 1, str.upper, object()])
def test_a_function_that_no_process_can_find_is_refused(function: Any, monkeypatch: pytest.MonkeyPatch):
    app = App()
    with pytest.raises(Invalid):
        app.activity("activity", function, runs_in="process")
    monkeypatch.setattr(activities.greets, "__module__", "__main__")
    monkeypatch.delattr("__main__.__file__", raising=False)
    with pytest.raises(Invalid, match="interactive session"):
        app.activity("activity", activities.greets, runs_in="process")


@on_loop
async def test_all_heartbeats_are_heard_before_a_failure():
    async with bench(activities.counts) as made:
        with pytest.raises(RaisedInProcess, match="stumbled at 50") as caught:
            await made.call(activities.counts, 100)
        assert made.beats == list(range(1, 51))
        assert caught.value.failure.type == "ValueError"
        assert "raise ValueError" in (caught.value.failure.stack or "")
        details = Payload(b"90")
        assert await made.call(activities.counts, 100, details=details) == {"begun": 90, "attempt": 1}


@on_loop
async def test_failures_are_those_of_the_function():
    async with bench(activities.declines) as made:
        for retry, retryable in ((RetryPolicy(), None), (RetryPolicy(non_retryable=("LookupError",)), False)):
            with pytest.raises(RaisedInProcess) as caught:
                await made.call(activities.declines, retry=retry)
            failure = caught.value.failure
            assert (failure.type, failure.message, failure.retryable) == ("Declined", "no money", retryable)
        with pytest.raises(RaisedInProcess) as caught:
            await made.call(activities.cannot_be_sent)
        assert caught.value.failure.kind == Kind.INVALID
        with pytest.raises(RaisedInProcess) as caught:
            await made.call(activities.greets, {"not": "a name"})
        assert caught.value.failure.kind == Kind.INVALID


@on_loop
async def test_a_process_that_dies_takes_its_activity_with_it_and_not_the_next():
    async with bench(activities.dies) as made:
        for code in ("exit code 3", "exit code 3"):
            await made.ready()
            with pytest.raises(Failure, match=code) as caught:
                await made.call(activities.dies)
            assert caught.value.kind == Kind.UNAVAILABLE
            assert made.slots.processes == 0
        assert await made.call(activities.process_number) != os.getpid()


@on_loop
async def test_an_idle_process_that_dies_takes_its_slot_with_it():
    async with bench(activities.process_number) as made:
        number = await made.call(activities.process_number)
        os.kill(number, signal.SIGKILL)
        await until(lambda: made.slots.processes == 0)
        await made.ready()
        assert await made.call(activities.process_number) != number


@on_loop
async def test_a_process_serves_so_many_attempts_and_no_more():
    async with bench(activities.process_number, attempts_per_process=2) as made:
        numbers = []
        for _ in range(5):
            await made.ready()
            numbers.append(await made.call(activities.process_number))
        first, second, third = numbers[0], numbers[2], numbers[4]
        assert numbers == [first, first, second, second, third]
        assert len({first, second, third}) == 3
        assert not alive(first)


@pytest.mark.parametrize("over", [True, False])
@on_loop
async def test_an_attempt_that_is_over_before_it_has_a_process_never_runs(over: bool, tmp_path: Path):
    async with bench(activities.ignores_sigterm, activities.sleeps) as made:
        await made.ready()
        busy = asyncio.create_task(made.call(activities.sleeps, 0.3, 1))
        late = asyncio.create_task(made.call(activities.ignores_sigterm, str(tmp_path / "ran"), 2))
        await until(lambda: made.slots.processes == -1)
        made.processes.cancel(2, over=over)
        with pytest.raises(asyncio.CancelledError):
            await late
        assert made.slots.processes == 0
        await busy
        await made.call(activities.sleeps, 0, 3)
        assert not (tmp_path / "ran").exists()
        assert made.slots.processes == 1


@on_loop
async def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path):
    async with bench(activities.ignores_sigterm) as made:
        call = asyncio.create_task(made.call(activities.ignores_sigterm, str(tmp_path / "ran")))
        await until((tmp_path / "ran").exists)
        number = int((tmp_path / "ran").read_text())
        made.processes.cancel(1, over=True)
        with pytest.raises(asyncio.CancelledError):
            await call
        assert alive(number)
        assert made.slots.processes == 0, "it still has the place of another one"
        await until(lambda: not alive(number))
        await made.ready()


@on_loop
async def test_an_attempt_that_nobody_ends_is_ended_after_its_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(pool, "SECOND", 1_000_000_000)
    async with bench(activities.ignores_sigterm) as made:
        with pytest.raises(Failure, match="timed out") as caught:
            await made.call(activities.ignores_sigterm, str(tmp_path / "ran"))
        assert caught.value.kind == Kind.TIMEOUT


@on_loop
async def test_nobody_waits_for_a_process_when_the_worker_goes(tmp_path: Path):
    made = Bench(activities.ignores_sigterm, limit=2)
    call = asyncio.create_task(made.call(activities.ignores_sigterm, str(tmp_path / "ran")))
    await until((tmp_path / "ran").exists)
    number = int((tmp_path / "ran").read_text())
    made.processes.close()
    made.processes.kill()
    await until(lambda: not alive(number))
    with pytest.raises(Failure, match="died"):
        await call
    await until(lambda: not made.processes.alive)
    assert made.slots.processes == 0


@on_loop
async def test_processes_that_are_ended_while_they_start_are_not_left_behind():
    made = Bench(activities.process_number)
    await asyncio.sleep(0)
    made.processes.kill()
    await until(lambda: not made.processes.alive)
    assert made.slots.processes == 0


@on_loop
async def test_processes_are_started_beside_the_loop():
    async with bench(activities.process_number, limit=2) as made:
        loop, late = asyncio.get_running_loop(), 0.0
        while made.slots.processes < 1:
            begun = loop.time()
            await asyncio.sleep(0.001)
            late = max(late, loop.time() - begun)
        assert late < 0.5, "the worker does other things meanwhile"


@on_loop
async def test_a_module_that_cannot_be_imported_fails_the_attempt_and_not_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(activities.greets, "__module__", "tests.no_such_module")
    async with bench(activities.greets) as made:
        with pytest.raises(RaisedInProcess, match="no_such_module") as caught:
            await made.call(activities.greets)
        assert caught.value.failure.type == "ModuleNotFoundError"
        assert made.slots.processes == 1
    assert "cannot import tests.no_such_module" in caplog.text


@on_loop
async def test_processes_that_die_while_they_start_are_started_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(pool, "FIRST_RESTART_SECONDS", 0.01)
    async with bench(exits_on_import.never, limit=8) as made:
        with pytest.raises(Failure, match=r"died before it could run one \(exit code 9\).*__main__") as caught:
            await made.call(exits_on_import.never)
        assert caught.value.kind == Kind.UNAVAILABLE
        assert made.slots.processes == 1, "who comes next is told at once"
        with pytest.raises(Failure, match="exit code 9"):
            await made.call(exits_on_import.never)
        messages = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        pauses = [text.rpartition("started in ")[2] for text in messages[:3]]
        assert pauses == ["0.01 s", "0.02 s", "0.04 s"]
        made.processes._modules = ()
        assert await until(lambda: made.processes._broken is None)
        assert made.slots.processes == 1
        assert await made.call(activities.greets, "Ada") == "Hello, Ada!"


@on_loop
async def test_what_an_activity_prints_is_seen_when_it_ends(capfd: pytest.CaptureFixture[str]):
    async with bench(activities.says) as made:
        await made.call(activities.says, "hello from there")
        assert "hello from there" in capfd.readouterr().out
