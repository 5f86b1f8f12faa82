"""The asyncio loop of one workflow run: callbacks in FIFO order, time from the history, no I/O.

Rules owned here:

* A timer's callback runs when `fire_timer` names its timer, never by a clock: the history decides. Delay 0 needs no
  timer.
* Tasks and futures are numbered (see determinism.py), because asyncio keeps them in sets.
* `drop` closes every coroutine (see teardown.py); from then on `leaving` is true, and nothing that a `finally` block
  does reaches the runtime.
* The garbage collector must not influence a history: unfinished tasks are kept alive, and abandoned async generators
  are kept until `drop` instead of running their `finally` in the middle of the workflow.
"""

from __future__ import annotations

import asyncio
import asyncio.tasks
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextvars import Context, copy_context
from types import CoroutineType
from typing import Any, Final, NoReturn, Protocol, TypeVar, TypeVarTuple, overload

from assay.core.model.errors import RunawayError
from assay.sdk.workflow.replay import determinism, guard, interrupts, teardown
from assay.sdk.workflow.replay.cancellation import TaskBody
from assay.sdk.workflow.replay.workflow_flag import FLAG

HANDLE_LIMIT: Final = 1_000_000
TIME_LIMIT_SECONDS: Final = 2.0
_HANDLES_PER_CLOCK_READING: Final = 1_000
_FIRST_SWEEP: Final = 8
_ASYNCIO_TASKS: Final = determinism.ASYNCIO_TASKS
_ADVICE: Final = "wait for something in every loop, and compute in an activity or in ctx.run"

# From Python 3.14 on a thread has one current task, and a loop can enter its own task only while the thread has none.
_SWAP_TASK: Final[Any] = vars(asyncio.tasks)["_swap_current_task"] if sys.version_info >= (3, 14) else None

Args = TypeVarTuple("Args")
Kind = TypeVar("Kind", bound=determinism.WorkflowFuture)
TaskKind = TypeVar("TaskKind", bound=determinism.WorkflowTask)
Outcome = TypeVar("Outcome")


class TimerPort(Protocol):
    """The runtime's interface to the loop: durable timers, and the time of the last applied input event."""

    def start_timer(self, delay_seconds: float) -> int: ...

    def cancel_timer(self, seq: int) -> None: ...

    def now(self) -> float: ...


class _WorkflowHandle(asyncio.Handle):
    """A handle that skips asyncio's check for debug mode, which would double its cost."""

    __slots__ = ()
    _repr = None
    _source_traceback = None

    def __init__(
        self, callback: Callable[..., object], args: Sequence[Any], loop: WorkflowLoop, context: Context
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False


class _DurableTimer(asyncio.TimerHandle):
    __slots__ = ("seq",)
    seq: int


class WorkflowLoop(guard.NoIOLoop):
    """A loop that the runtime drives: complete futures or fire timers, then `run_until_blocked`, until `drop`.

    `errors` collects exceptions of callbacks, `failed` the tasks that ended with an exception. `busy_since` is read by
    the watchdog in another thread, which ends a turn that never returns by `interrupt`.
    """

    __slots__ = (
        "_clock", "_futures_made", "_making", "_orphans", "_paused", "_ready", "_running", "_sweep_at", "_tasks",
        "_tasks_made", "_thread", "_time_limit", "_timers", "_waiting", "_wrapped",
        "busy_since", "context", "errors", "failed", "handler", "interrupted", "lease_seconds", "leaving", "raising",
        "strict",
    )  # fmt: skip

    def __init__(
        self,
        timers: TimerPort,
        *,
        clock: Callable[[], float] = time.monotonic,
        time_limit_seconds: float = TIME_LIMIT_SECONDS,
    ) -> None:
        guard.install()
        self.context = Context()
        self.errors: list[BaseException] = []
        self.failed: list[determinism.WorkflowTask] = []
        self.leaving = False
        self.busy_since: float | None = None
        """When the code of the current turn began to run."""
        self.interrupted: str | None = None
        """The reason for which the watchdog has interrupted a turn of this loop."""
        self.raising = False
        """True while the watchdog raises an exception in this loop's thread."""
        self.handler = ""
        """The name of the workflow, for the watchdog's messages."""
        self.lease_seconds: float | None = None
        """The lease of the run's tasks, if it differs from the worker's."""
        self.strict = False
        """True if clocks and random sources raise in the code."""
        self._timers = timers
        self._clock = clock
        self._time_limit = time_limit_seconds
        self._ready: deque[asyncio.Handle] = deque()
        self._waiting: dict[int, _DurableTimer] = {}
        self._tasks: list[determinism.WorkflowTask] = []
        self._sweep_at = _FIRST_SWEEP
        self._tasks_made = self._futures_made = 0
        self._orphans: list[AsyncGenerator[Any, Any]] = []
        self._wrapped: dict[Any, determinism.WorkflowTask] = {}
        self._thread = threading.get_ident()
        self._running = self._paused = self._making = False

    @property
    def timers(self) -> TimerPort:
        """Return the owner of the loop's clock and timers: the commands of the run."""
        return self._timers

    def run_until_blocked(self) -> bool:
        """Run ready callbacks until every coroutine waits (True) or `pause` was called (False)."""
        return self.drive(self.drain)

    def pause(self) -> None:
        """End the turn after the current callback; ready callbacks stay ready for the next turn."""
        self._paused = True

    def resume_first(self, waiter: asyncio.Future[None]) -> None:
        """Complete a future whose waiters run before other ready callbacks, as if the loop had never paused."""
        ready_before = len(self._ready)
        waiter.set_result(None)
        self._ready.rotate(len(self._ready) - ready_before)

    def fire_timer(self, seq: int) -> bool:
        """Make the timer's callback ready; return False if the timer was cancelled."""
        timer = self._waiting.pop(seq, None)
        if timer is None:
            return False
        self._ready.append(timer)
        return True

    @property
    def has_timers(self) -> bool:
        """Return True while a timer is armed."""
        return bool(self._waiting)

    def drive(self, work: Callable[[*Args], Outcome], *args: *Args) -> Outcome:
        """Call `work` as one turn, in which it may `drain` many times: entering a turn costs more than a step.

        Usually called in a callback of the worker's own loop, whose state is saved and restored.
        """
        if self._running:
            raise RuntimeError("the workflow's loop is already running")
        outer_loop = asyncio._get_running_loop()
        outer_task = None if _SWAP_TASK is None or outer_loop is None else _SWAP_TASK(outer_loop, None)
        outer_hooks = sys.get_asyncgen_hooks()
        flag = FLAG
        outer_inside = flag.inside
        flag.inside = self  # the watchdog finds the turn of a blocked thread by its flag
        self._thread = threading.get_ident()
        sys.set_asyncgen_hooks(None, self._abandoned)
        asyncio._set_running_loop(self)
        try:
            try:
                self._running = True  # from here on the watchdog may interrupt
                return work(*args)
            finally:
                self._running = False
                self.busy_since = None
                if self.interrupted is not None:
                    # First of all: an undelivered exception must not be raised in other code.
                    interrupts.withdraw(self)
        finally:
            if self.interrupted is not None:  # again, in case the exception was raised in the lines above
                self._running = False
                self.busy_since = None
                interrupts.withdraw(self)
            asyncio._set_running_loop(outer_loop)
            sys.set_asyncgen_hooks(*outer_hooks)
            flag.inside = outer_inside
            if outer_task is not None:
                _SWAP_TASK(outer_loop, outer_task)

    def drain(self) -> bool:
        """Run ready callbacks like `run_until_blocked`, inside `drive`."""
        ready = self._ready
        self._paused = False
        started = self._clock()
        if self.busy_since is None:
            self.busy_since = started
        count = 0
        while ready:
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
            if self._paused:
                return False
            count += 1
            if count % _HANDLES_PER_CLOCK_READING == 0:
                self._check(count, started)
        return True

    def interrupt(self, reason: str) -> bool:
        """Raise `RunawayError` in the code of the current turn; called by the watchdog in another thread.

        Returns:
            False if the turn has ended meanwhile.
        """
        return interrupts.interrupt(self, reason)

    @property
    def thread(self) -> int:
        """Return the id of the thread that executes the turn."""
        return self._thread

    def _check(self, count: int, started: float) -> None:
        if count >= HANDLE_LIMIT:
            raise RunawayError(f"the workflow ran {count:,} callbacks without ever waiting: {_ADVICE}")
        if self._clock() - started > self._time_limit:
            raise RunawayError(f"the workflow ran for over {self._time_limit:g} s without ever waiting: {_ADVICE}")

    def time(self) -> float:
        return self._timers.now()

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _WorkflowHandle(callback, args, self, self._current_context() if context is None else context)
        if not self.leaving:
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        if threading.get_ident() != self._thread:
            raise RuntimeError(
                "another thread called into a workflow, at a moment that cannot be replayed: "
                "do such work in an activity or in ctx.run, or send the workflow a signal"
            )
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self.leaving:
            raise teardown.left()
        own_context = self._current_context() if context is None else context
        timer = _DurableTimer(self.time() + delay, callback, args, self, own_context)
        timer.seq = 0
        if delay > 0:
            timer.seq = self._timers.start_timer(delay)
            self._waiting[timer.seq] = timer
        else:
            self._ready.append(timer)
        return timer

    def call_at(
        self, when: float, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        # A float of seconds since 1970 is exact to a quarter of a microsecond: unrounded, 0.1 would become 0.0999999.
        return self.call_later(round(when - self.time(), 6), callback, *args, context=context)

    def _timer_handle_cancelled(self, timer: _DurableTimer) -> None:
        """Cancel the durable timer; asyncio calls this for every cancelled timer handle, even after it has fired."""
        if self._waiting.get(timer.seq) is timer:
            del self._waiting[timer.seq]
            if not self.leaving:
                self._timers.cancel_timer(timer.seq)

    def _current_context(self) -> Context:
        return copy_context() if self._running else self.context.copy()

    @overload
    def create_future(self) -> asyncio.Future[Any]: ...
    @overload
    def create_future(self, kind: type[Kind]) -> Kind: ...

    def create_future(self, kind: type[determinism.WorkflowFuture] = determinism.WorkflowFuture) -> asyncio.Future[Any]:
        self._making = True
        future = kind(loop=self)
        self._making = False
        self._futures_made = future.order = self._futures_made + 1
        return future

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: object = None,
        context: Context | None = None,
        eager_start: bool | None = None,
    ) -> asyncio.Task[Any]:
        """Create a task that never starts eagerly: the order of steps must not depend on Python's version."""
        if self.leaving:
            coro.close()
            raise teardown.left()
        caller = sys._getframe(1)
        if caller.f_globals is _ASYNCIO_TASKS and caller.f_back and caller.f_back.f_globals is _ASYNCIO_TASKS:
            given = determinism.as_completed_arguments(caller)
            if given is not None:
                return self._task_in_argument_order(coro, given)
        return self._make_task(coro, name, context, determinism.WorkflowTask)

    def go(self, coro: Coroutine[Any, Any, Any]) -> determinism.GoTask:
        """Create a task whose exception is raised in the main coroutine if no task awaits it."""
        if self.leaving:
            coro.close()
            raise teardown.left()
        task = self._make_task(coro, None, None, determinism.GoTask)
        task.waiters = 0  # without the loop's own callback
        return task

    def _task_in_argument_order(self, coro: Any, given: Any) -> determinism.WorkflowTask:
        if coro not in self._wrapped:
            for coroutine in determinism.in_argument_order(coro, given):
                self._wrapped[coroutine] = self._make_task(coroutine, None, None, determinism.WorkflowTask)
        return self._wrapped.pop(coro)

    def _make_task(self, coro: Any, name: object, context: Context | None, kind: type[TaskKind]) -> TaskKind:
        number = self._tasks_made + 1
        task = kind.__new__(kind)
        task.order = id(task) >> 4
        if context is None and not self._running:
            context = self.context.copy()
        self._making = True
        try:
            task.__init__(  # type: ignore[misc]  # two steps, because the number is set between them
                TaskBody(coro, coro.send) if type(coro) is CoroutineType else coro,
                loop=self,
                name=f"Task-{number}" if name is None else str(name),
                context=context,
            )
        finally:
            self._making = False
        self._tasks_made = task.order = number
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # private, but `gather` does the same
        self._tasks.append(task)
        if number > 1:  # all but the main coroutine, whose exception ends the run
            asyncio.Task.add_done_callback(task, self._ended)
        if len(self._tasks) > self._sweep_at:
            self._sweep()
        return task

    def _ended(self, task: determinism.WorkflowTask) -> None:
        if not task.cancelled() and task._log_traceback:
            self.failed.append(task)

    def unfinished(self) -> list[determinism.WorkflowTask]:
        """Return the unfinished tasks, in order of creation."""
        return [task for task in self._tasks if not task.done()]

    def _sweep(self) -> None:
        """Forget finished tasks; the interval doubles with their number, so that the cost per task is constant."""
        self._tasks = self.unfinished()
        self._sweep_at = 2 * len(self._tasks) + _FIRST_SWEEP

    def get_debug(self) -> bool:
        """Return False, and number futures that asyncio creates itself: each calls this method on creation."""
        if not self._making:
            future = determinism.gathering(sys._getframe(1))
            if future is not None:
                self._futures_made = future.order = self._futures_made + 1
        return False

    def set_debug(self, enabled: bool) -> None: ...

    def call_exception_handler(self, context: Mapping[str, Any]) -> None:
        """Keep exceptions of callbacks for the runtime; other reports come from finalizers, or are advice."""
        if self.leaving:
            return
        error = context.get("exception")
        if error is not None and "handle" in context:
            self.errors.append(error)

    def default_exception_handler(self, context: Mapping[str, Any]) -> None:
        self.call_exception_handler(context)

    def _abandoned(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self._running or not self.leaving:
            self._orphans.append(generator)

    async def shutdown_asyncgens(self) -> None:
        while self._orphans:
            await self._orphans.pop(0).aclose()

    def drop(self) -> None:
        """Close all coroutines and clear the loop, so that the run is freed when its owner releases it."""
        if self._running:
            raise RuntimeError("a workflow cannot be dropped in the middle of its turn")
        if self.leaving:
            return
        self.leaving = True
        self.busy_since = self._clock()  # the watchdog also interrupts `finally` blocks that never end
        if self._orphans or not all(task.done() for task in self._tasks):
            self.drive(self._close_all)
        self._tasks.clear()
        self._timers = teardown.GoneTimers(self._timers.now())
        self.context = Context()
        self._ready.clear()
        self._waiting.clear()
        self._wrapped.clear()
        self.errors.clear()
        self.failed.clear()

    def close(self) -> None:
        self.drop()

    def _close_all(self) -> None:
        context = self.context.copy()
        while self._tasks:
            task = self._tasks.pop()
            if not task.done():
                context.run(teardown.close, task)
        while self._orphans:
            context.run(teardown.close_generator, self._orphans.pop(0))

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self.leaving

    async def shutdown_default_executor(self) -> None: ...

    def get_task_factory(self) -> None: ...

    def get_exception_handler(self) -> None: ...

    def _driven(self, *args: object) -> NoReturn:
        raise RuntimeError(
            "a workflow's loop is driven by its worker: it cannot be run, stopped or changed from inside"
        )

    run_forever: Any = _driven
    run_until_complete: Any = _driven
    stop: Any = _driven
    set_task_factory: Any = _driven
    set_exception_handler: Any = _driven
