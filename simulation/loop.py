"""An asyncio loop without a clock of its own: one thread, virtual time, and nodes that crash and pause.

Rules owned here:

* Every callback belongs to the node whose context it was made in. Within a node callbacks run in order, as asyncio
  promises; between nodes chance decides who is next, and how long a callback took.
* A node that has crashed never runs another callback: no `finally`, no goodbye. One that is paused keeps everything
  for later, as a stopped process does.
* Time stands still while something can run (but for what callbacks take) and otherwise jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import Context, ContextVar, copy_context
from typing import Any, NoReturn, TypeVarTuple

from assay.core.model.ids import SECOND, Time
from assay.sdk.workflow.replay import guard

Args = TypeVarTuple("Args")
NODE: ContextVar[Node] = ContextVar("node")
CLOSE_ATTEMPTS = 100


class Node:
    """A process of the simulated world: its callbacks live and die together."""

    __slots__ = ("alive", "context", "name", "paused", "ready")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.ready: deque[asyncio.Handle] = deque()
        self.context = Context()
        self.context.run(NODE.set, self)

    def __repr__(self) -> str:
        return self.name


class _SimHandle(asyncio.Handle):
    """A handle without asyncio's question whether to debug."""

    __slots__ = ()
    _repr = None
    _source_traceback = None

    def __init__(self, callback: Callable[..., object], args: Sequence[Any], loop: SimLoop, context: Context) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False


class Stalled(Exception):
    """So many callbacks ran that the world must be turning in circles."""


class SimLoop(guard.NoIOLoop):
    """Runs the callbacks of all nodes; `errors` keeps what callbacks raised, which is always a bug."""

    def __init__(self, chance: random.Random, *, hiccups: float = 0.0, limit: int = 80_000) -> None:
        self.now: Time = 0
        self.steps = 0
        self.errors: list[BaseException] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self._chance = chance
        self._hiccups = hiccups
        self._limit = limit
        self._timers: list[tuple[Time, int, asyncio.TimerHandle, Node]] = []
        self._timers_made = 0
        self._runnable: list[Node] = []
        self._sweep_at = 256
        self._over = False

    # what the world does with it

    def run_until(self, done: Callable[[], bool], until: Time) -> bool:
        """Run until `done` (True) or until a time has come or nothing is left to happen (False)."""
        asyncio._set_running_loop(self)
        try:
            while not done():
                if self.now >= until:
                    return False
                if not self._step(until):
                    self.now = until  # nobody has anything to do until then
                    return False
            return True
        finally:
            asyncio._set_running_loop(None)

    def spawn(self, node: Node, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a coroutine in a node."""
        return self.create_task(coroutine, context=node.context.copy())

    def post(self, node: Node, delay: Time, callback: Callable[[*Args], object], *args: *Args) -> None:
        """Call something in a node after a while, if the node is still there."""
        self._arm(self.now + delay, callback, args, node.context.copy(), node)

    def crash(self, node: Node) -> None:
        """The node is gone, between two instructions."""
        node.alive = False
        node.ready.clear()
        self._withdraw(node)

    def pause(self, node: Node) -> None:
        """The node stops where it is."""
        node.paused = True
        self._withdraw(node)

    def resume(self, node: Node) -> None:
        """The node goes on and finds out how late it is."""
        node.paused = False
        if node.alive and node.ready and node not in self._runnable:
            self._runnable.append(node)

    def dismantle(self) -> None:
        """Close every coroutine that is left, without letting any of them do anything."""
        self._over = True
        for task in self.tasks:
            coroutine: Any = task.get_coro()
            for _ in range(CLOSE_ATTEMPTS):
                with contextlib.suppress(BaseException):
                    coroutine.close()
                    break
        self.tasks.clear()
        self._timers.clear()

    def unheard(self) -> list[BaseException]:
        """What background tasks of living nodes died of without anybody asking."""
        found = []
        for task in self.tasks:
            if task.done() and not task.cancelled() and task._log_traceback:
                error = task.exception()
                if error is not None:
                    found.append(error)
        return found

    def _withdraw(self, node: Node) -> None:
        if node in self._runnable:
            self._runnable.remove(node)

    def _step(self, until: Time) -> bool:
        timers = self._timers
        if not self._runnable:
            while timers and (timers[0][2]._cancelled or not timers[0][3].alive):
                heapq.heappop(timers)
            if not timers:
                return False
            self.now = max(self.now, min(timers[0][0], until))
        while timers and timers[0][0] <= self.now:
            _, _, timer, node = heapq.heappop(timers)
            if not timer._cancelled:
                self._enqueue(node, timer)
        if self._runnable:
            self._run_one()
        return True

    def _run_one(self) -> None:
        runnable = self._runnable
        node = runnable[0] if len(runnable) == 1 else runnable[int(self._chance.random() * len(runnable))]
        handle = node.ready.popleft()
        if not node.ready:
            runnable.remove(node)
        if not handle._cancelled:
            handle._run()
        self.steps += 1
        luck = self._chance.random()
        self.now += 1 + int(luck * 40)
        if luck < self._hiccups:
            self.now += int(self._chance.random() * SECOND / 10)
        if self.steps > self._limit:
            raise Stalled(f"{self.steps} callbacks by {self.now / SECOND:.1f} s")

    def _enqueue(self, node: Node, handle: asyncio.Handle) -> None:
        if not node.alive or self._over:
            return
        node.ready.append(handle)
        if len(node.ready) == 1 and not node.paused:
            self._runnable.append(node)

    # what asyncio does with it

    def time(self) -> float:
        return self.now / SECOND

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        own = copy_context() if context is None else context
        handle = _SimHandle(callback, args, self, own)
        self._enqueue(own[NODE], handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        own = copy_context() if context is None else context
        return self._arm(self.now + max(0, math.ceil(delay * SECOND)), callback, args, own, own[NODE])

    def call_at(
        self, when: float, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_later(round(when - self.time(), 6), callback, *args, context=context)

    def _arm(
        self, when: Time, callback: Callable[..., object], args: Sequence[Any], context: Context, node: Node
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when / SECOND, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, timer, node))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio's way to let a loop count; ours passes over them when their time has come."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: object = None, context: Context | None = None, **_: object
    ) -> asyncio.Task[Any]:
        if self._over:
            coro.close()
            raise RuntimeError("this world is over")
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=f"task-{len(self.tasks)}", context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # private, but `gather` does the same
        self.tasks.append(task)
        if len(self.tasks) > self._sweep_at:
            self._sweep()
        return task

    def _sweep(self) -> None:
        self.tasks = [task for task in self.tasks if not task.done() or task._log_traceback]
        self._sweep_at = 2 * len(self.tasks) + 256

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None: ...

    async def shutdown_asyncgens(self) -> None: ...

    async def shutdown_default_executor(self) -> None: ...

    def get_task_factory(self) -> None: ...

    def get_exception_handler(self) -> None: ...

    def _driven(self, *args: object) -> NoReturn:
        raise RuntimeError("the world drives this loop")

    run_forever: Any = _driven
    run_until_complete: Any = _driven
    stop: Any = _driven
    close: Any = _driven
    set_task_factory: Any = _driven
    set_exception_handler: Any = _driven

    def default_exception_handler(self, context: Mapping[str, Any]) -> None:
        self.call_exception_handler(context)

    def call_exception_handler(self, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and "handle" in context:
            self.errors.append(error)
