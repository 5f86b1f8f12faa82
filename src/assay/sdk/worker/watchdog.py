"""The watchdog: one thread per process that detects blocked event loops of workers.

The thread schedules a callback on each watched loop twice a second. A loop that does not execute it is blocked: by
workflow code that computes without end, by an `async def` activity that blocks, or by other code on that loop.

* After two seconds, and then every ten, a log line names the handler, the file and the line.
* Workflow code receives `RunawayError` at eight tenths of the lease of its task, which fails the task.
* Code that no exception reaches (C code, activities) costs the worker its leases: after one lease the log line is an
  error, and the worker is reported as unhealthy over a connection of the thread's own.
* A process that only serves exits one lease after the exception had no effect, for a supervisor to restart it. A
  program with its own event loop decides for itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn, Protocol

from assay.core.model.ids import SECOND, Time
from assay.core.model.limits import FORCED_EXIT_CODE, FORCED_STOP_SECONDS, LAST_LOG_SECONDS, WORKER_LEASE
from assay.sdk.worker.stacks import Place, frames_of, handler_of, place_of
from assay.sdk.workflow.replay.guard import NoIOLoop
from assay.sdk.workflow.replay.loop import WorkflowLoop
from assay.sdk.workflow.replay.workflow_flag import FLAG

log = logging.getLogger("assay.worker")

RUNAWAY_SHARE: Final = 0.8
"""The part of a task's lease for which workflow code may compute without waiting."""
BLOCKED_LOG_SECONDS: Final = 2.0
BLOCKED_LOG_PAUSE_SECONDS: Final = 10.0
INTERRUPT_PAUSE_SECONDS: Final = 1.0
"""Seconds between two exceptions, for code that catches the first and continues."""
LOOP_CHECK_SECONDS: Final = 0.5
REPORT_PAUSE_SECONDS: Final = 5.0
"""Seconds before a failed health report is repeated."""

_DRIVING: Final = WorkflowLoop.drain.__code__
_UNSAFE_MODULES: Final = frozenset({
    "logging", "threading", "queue", "importlib._bootstrap", "_frozen_importlib", "assay.sdk.workflow.replay.guard",
})  # fmt: skip
"""Modules that hold process-wide locks: an exception inside them could leave a lock taken for good."""


class WatchedWorker(Protocol):
    """The interface of a worker to the watchdog."""

    @property
    def lease_seconds(self) -> float:
        """Return the seconds of silence after which the engine leases the worker's work to another worker."""
        ...

    def health(self) -> tuple[bool, int]:
        """Return whether the worker accepts all kinds of work, and the number of its abandoned threads."""
        ...

    def report_health(self, *, healthy: bool, abandoned_threads: int) -> None:
        """Report to the engine; called in the watchdog's thread, over a connection that needs no event loop."""
        ...


class BlockedTime:
    """The escalation of one blocked loop: which measures are due after how many seconds."""

    __slots__ = ("_interrupt_at", "_lease", "_log_at")

    def __init__(self, lease_seconds: float) -> None:
        self._lease = lease_seconds
        self._log_at = BLOCKED_LOG_SECONDS
        self._interrupt_at = 0.0

    def takes_log(self, seconds: float) -> bool:
        """Return whether a log line is due, and count it."""
        if seconds < self._log_at:
            return False
        self._log_at = seconds + BLOCKED_LOG_PAUSE_SECONDS
        return True

    def takes_interrupt(self, seconds: float, computing: float, lease_seconds: float) -> bool:
        """Return whether workflow code that has computed for `computing` seconds is to be interrupted, and count it."""
        if computing < RUNAWAY_SHARE * lease_seconds or seconds < self._interrupt_at:
            return False
        self._interrupt_at = seconds + INTERRUPT_PAUSE_SECONDS
        return True

    def is_lost(self, seconds: float) -> bool:
        """Return whether the worker's leases have expired."""
        return seconds >= self._lease

    def is_final(self, seconds: float) -> bool:
        """Return whether to give up: one lease has passed since the first interrupt."""
        return seconds >= (1 + RUNAWAY_SHARE) * self._lease


class WatchedLoop:
    """An event loop with workers; created in the loop's own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.thread = threading.get_ident()
        self.workers: dict[WatchedWorker, tuple[bool, int]] = {}
        """The workers, each with the health that was last reported."""
        self.report_at = 0.0
        self._flag = FLAG.__dict__  # the flag of this thread, readable from the watchdog's thread
        self._called_at: float | None = None
        self.blocked: BlockedTime | None = None

    @property
    def lease_seconds(self) -> float:
        """Return the shortest lease of the workers."""
        return min((worker.lease_seconds for worker in self.workers), default=WORKER_LEASE / SECOND)

    @property
    def is_lost(self) -> bool:
        """Return True while the loop is blocked for longer than a lease."""
        blocked = self.blocked
        return blocked is not None and blocked.is_lost(self.blocked_seconds(time.monotonic()))

    def call(self, now: float) -> None:
        """Schedule a callback, unless one is pending; raise `RuntimeError` if the loop is closed."""
        if self._called_at is None:
            self.blocked = None
            self._called_at = now
            self.loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._called_at = None

    def blocked_seconds(self, now: float) -> float:
        """Return the age of the pending callback."""
        called_at = self._called_at
        return 0.0 if called_at is None else now - called_at

    def forgive(self, seconds: float) -> None:
        """Discount a time in which the whole process was suspended."""
        if self._called_at is not None:
            self._called_at += seconds

    def turn(self) -> WorkflowLoop | None:
        """Return the workflow loop that the thread executes, or None outside workflow code."""
        inside = self._flag.get("inside")
        return inside if isinstance(inside, WorkflowLoop) else None

    def may_interrupt(self) -> bool:
        """Return whether the thread is inside workflow code, where an exception harms no other code."""
        for depth, frame in enumerate(frames_of(self.thread)):
            if frame.f_code is _DRIVING:
                return depth > 0
            if frame.f_globals.get("__name__") in _UNSAFE_MODULES:
                return False
        return True  # a `def` handler runs in a greenlet, whose stack does not contain the loop


class Watchdog:
    """Watches the event loops of a process that have workers."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[asyncio.AbstractEventLoop, WatchedLoop] = {}
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self.serving = 0
        """Above 0 while the process serves and does nothing else."""

    def watch(self, worker: WatchedWorker) -> None:
        """Watch the running event loop for a worker, which begins healthy."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, NoIOLoop):
            return  # a simulated loop, whose time does not pass by itself
        with self._lock:
            watched = self._watched.get(loop)
            if watched is None:
                watched = self._watched[loop] = WatchedLoop(loop)
            watched.workers[worker] = (True, 0)
            if self._thread is None:
                self._ending = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._ending,), name="assay-watchdog", daemon=True
                )
                self._thread.start()

    def unwatch(self, worker: WatchedWorker) -> None:
        """Remove a worker that has ended; a loop without workers is not watched."""
        with self._lock:
            for loop, watched in tuple(self._watched.items()):
                watched.workers.pop(worker, None)
                if not watched.workers:
                    del self._watched[loop]
            if not self._watched and self._thread is not None:
                self._ending.set()
                self._thread = None

    @contextmanager
    def only_serving(self) -> Iterator[None]:
        """Permit the watchdog to exit the process during this block if its loop is blocked for good."""
        self.serving += 1
        try:
            yield
        finally:
            self.serving -= 1

    def _run(self, ending: threading.Event) -> None:
        before, used = time.monotonic(), time.process_time()
        while True:
            with self._lock:
                watched_loops = tuple(self._watched.values())
                pause = min([LOOP_CHECK_SECONDS, *(watched.lease_seconds / 20 for watched in watched_loops)])
            if ending.wait(pause):
                return
            now, busy = time.monotonic(), time.process_time()
            late = now - before - pause
            if late > 1.0 and busy - used < late / 2:
                # Blocking code would have used the CPU: the process was stopped, or the machine was asleep.
                for watched in watched_loops:
                    watched.forgive(late)
            before, used = now, busy
            for watched in watched_loops:
                self._look(watched, now)

    def _look(self, watched: WatchedLoop, now: float) -> None:
        try:
            watched.call(now)
            seconds = watched.blocked_seconds(now)
            if seconds > LOOP_CHECK_SECONDS:
                self._escalate(watched, seconds, now)
            self._report(watched, now)
        except RuntimeError:  # the loop is closed
            with self._lock:
                self._watched.pop(watched.loop, None)
        except Exception:
            log.exception("the watchdog failed over a loop")

    def _escalate(self, watched: WatchedLoop, seconds: float, now: float) -> None:
        blocked = watched.blocked
        if blocked is None:
            blocked = watched.blocked = BlockedTime(watched.lease_seconds)
        turn = watched.turn()
        if blocked.takes_log(seconds):
            _log(watched, turn, seconds, lost=blocked.is_lost(seconds))
        if turn is not None and turn.busy_since is not None:
            lease = turn.lease_seconds or watched.lease_seconds
            if watched.may_interrupt() and blocked.takes_interrupt(seconds, now - turn.busy_since, lease):
                _interrupt(watched, turn, now - turn.busy_since)
        if self.serving and blocked.is_final(seconds):
            end_process(f"the event loop is blocked for {seconds:.0f} s by {_named(watched, turn)}; this process ends")

    def _report(self, watched: WatchedLoop, now: float) -> None:
        if now < watched.report_at:
            return
        for worker, known in tuple(watched.workers.items()):
            healthy, abandoned = worker.health()
            health = (healthy and not watched.is_lost, abandoned)
            if health == known:
                continue
            try:
                worker.report_health(healthy=health[0], abandoned_threads=health[1])
            except Exception as error:  # noqa: BLE001  # the report is repeated; the watch must continue
                log.warning("cannot report the health of a worker: %s", error)
                watched.report_at = now + REPORT_PAUSE_SECONDS
            else:
                with self._lock:
                    if worker in watched.workers:
                        watched.workers[worker] = health


def end_process(reason: str) -> NoReturn:
    """Exit this process with code 70, whatever its threads are doing."""
    last = threading.Thread(target=log.critical, args=("%s", reason), name="assay-last-words", daemon=True)
    last.start()
    last.join(LAST_LOG_SECONDS)
    os._exit(FORCED_EXIT_CODE)


def end_process_later(stopped: threading.Event, seconds: float = FORCED_STOP_SECONDS) -> None:
    """Exit this process with code 70 in `seconds`, unless `stopped` is set before; return at once.

    A separate thread waits: the watchdog may be delayed by a log line.
    """

    def wait() -> None:
        if not stopped.wait(seconds):
            end_process(f"stopping took longer than {seconds:g} s; this process ends")

    threading.Thread(target=wait, name="assay-stop", daemon=True).start()


def _named(watched: WatchedLoop, turn: WorkflowLoop | None) -> str:
    place = place_of(watched.thread)
    name = handler_of(watched.thread) if turn is None else f"workflow '{turn.handler}'"
    return f"{name or 'code on the event loop of this worker'} at {place or 'an unknown place'}"


def _log(watched: WatchedLoop, turn: WorkflowLoop | None, seconds: float, *, lost: bool) -> None:
    advice = (
        "compute in an activity or in ctx.run"
        if turn is not None
        else "write the activity as `def`, await its blocking calls, or run it in a process"
    )
    text = "%s has blocked the event loop for %.0f s: %s"
    if lost:
        text += "; the leases of this worker expire, and its work is leased to other workers"
    log.log(logging.ERROR if lost else logging.WARNING, text, _named(watched, turn), seconds, advice)


def _interrupt(watched: WatchedLoop, turn: WorkflowLoop, seconds: float) -> None:
    place: Place | None = place_of(watched.thread)
    turn.interrupt(
        f"workflow '{turn.handler}' computed for {seconds:.0f} s without waiting, at {place}: wait in every loop, and"
        " compute in an activity or in ctx.run"
    )


def lease_seconds(lease: Time | None) -> float:
    """Return a lease in seconds; workers in the engine's process have none, and are watched by the default lease."""
    return (WORKER_LEASE if lease is None else lease) / SECOND


WATCHDOG: Final = Watchdog()
"""The watchdog of this process; its thread runs while the process has workers."""
