"""The process pool of a worker for `def` activities that compute: one attempt at a time each.

A slot stands for an idle process that has imported its modules, so that an attempt's time-outs start with its code.
"""

import asyncio
import logging
import signal
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from assay.core.model.errors import Failure, Kind
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, Time
from assay.core.model.payload import Payload
from assay.core.model.slots import Slots
from assay.sdk.app import Definition
from assay.sdk.worker.activity_process import ActivityProcess
from assay.sdk.worker.process_child import (
    Cancel,
    FromProcess,
    ProcessCall,
    ProcessHeartbeat,
    Raised,
    Ready,
    Returned,
    refuse_while_loading,
)

log = logging.getLogger("assay.worker")
CANCEL_SECONDS: Final = 1.0
"""Seconds for a cancelled attempt to send the heartbeat that raises `CancelRequested`; otherwise it is terminated."""
ATTEMPTS_PER_PROCESS: Final = 1_000
FIRST_RESTART_SECONDS: Final = 0.5
LONGEST_RESTART_SECONDS: Final = 60.0
"""Seconds before the next start after a process that exited without having run an attempt."""
FAILED_STARTS_LIMIT: Final = 3
"""After this number of failed starts, and none that succeeded, attempts fail instead of waiting without end."""


class RaisedInProcess(Exception):
    """Carries the failure of a function that raised in a process."""

    def __init__(self, failure: FailureInfo) -> None:
        super().__init__(failure.message)
        self.failure = failure


class _Attempt:
    """An attempt that waits for a process or runs in one."""

    def __init__(self, call: ProcessCall, limit: Time, beat: Callable[[Payload], None]) -> None:
        self.call = call
        self.limit = limit
        self.beat = beat
        self.process: ActivityProcess | None = None
        self.outcome: asyncio.Future[Payload] = asyncio.get_running_loop().create_future()
        self.limit_timer: asyncio.TimerHandle | None = None
        self.cancel_timer: asyncio.TimerHandle | None = None
        """Terminates the process; set by a cancel, and stopped by the heartbeat that raises `CancelRequested`."""

    def end(self, outcome: "Payload | BaseException") -> None:
        """Complete the outcome, unless it is complete."""
        if self.outcome.done():
            return
        if isinstance(outcome, asyncio.CancelledError):
            self.outcome.cancel(*outcome.args)
        elif isinstance(outcome, BaseException):
            self.outcome.set_exception(outcome)
        else:
            self.outcome.set_result(outcome)


class Processes:
    """The activity processes of one worker: started on demand, replaced when they exit.

    Args:
        slots: Counts idle processes for the engine.
        limit: The maximum number of processes.
        offered: Called when a slot was added.
        attempts_per_process: A process is replaced after this number of attempts.
    """

    def __init__(
        self,
        slots: Slots,
        limit: int,
        offered: Callable[[], None],
        *,
        attempts_per_process: int = ATTEMPTS_PER_PROCESS,
    ) -> None:
        self._slots = slots
        self._limit = limit
        self._offered = offered
        self._attempts_per_process = attempts_per_process
        self._modules: tuple[str, ...] = ()
        self._processes: dict[ActivityProcess, asyncio.Task[None]] = {}
        self._idle: list[ActivityProcess] = []
        self._waiting: deque[_Attempt] = deque()
        self._attempts: dict[int, _Attempt] = {}
        self._closed = False
        self._ever_ready = False
        self._failed_starts = 0
        self._pause: asyncio.TimerHandle | None = None
        self._broken: str | None = None
        """The reason why no process can be started. While set, one slot is offered, for attempts that fail with it."""
        self._reported: set[str] = set()

    def start(self, definitions: Iterable[Definition]) -> None:
        """Start the first process if an activity runs in one, and set the names of activities that need a slot."""
        refuse_while_loading()
        found = [definition for definition in definitions if definition.in_process]
        self._slots.process_activities = frozenset(definition.name for definition in found)
        self._modules = tuple(sorted({address_of(definition)[0] for definition in found}))
        if found:
            self._grow()

    # attempts

    async def call(self, call: ProcessCall, limit: Time, beat: Callable[[Payload], None]) -> Payload:
        """Run an attempt in a process and return its encoded result.

        Args:
            call: The attempt, as its process receives it.
            limit: The attempt's start-to-close time-out.
            beat: Called with the details of each heartbeat.

        Raises:
            RaisedInProcess: The function raised.
            Failure: The process exited, or none can be started.
            asyncio.CancelledError: The attempt was cancelled or is over.
        """
        if call.info.name not in self._slots.process_activities:
            self._slots.processes -= 1  # registered after the worker's start: the engine did not reserve the slot
        attempt = _Attempt(call, limit, beat)
        self._attempts[call.attempt_id] = attempt
        self._waiting.append(attempt)
        self._assign()
        try:
            return await attempt.outcome
        finally:
            self._leave(attempt)

    def _assign(self) -> None:
        """Start waiting attempts in idle processes; the engine normally sends no more attempts than slots."""
        while self._waiting and self._idle:
            attempt, process = self._waiting.popleft(), self._idle.pop()
            call = attempt.call
            process.attempt_id, attempt.process = call.attempt_id, process
            process.served += 1
            process.send(call)
            # The engine times the attempt out earlier; this timer ends a process that ignores the cancel.
            limit = attempt.limit / SECOND + CANCEL_SECONDS
            attempt.limit_timer = asyncio.get_running_loop().call_later(limit, self._time_out, attempt)
        if self._broken is not None:
            while self._waiting:
                self._waiting.popleft().end(Failure(self._broken, kind=Kind.UNAVAILABLE))
        self._grow()

    def _time_out(self, attempt: _Attempt) -> None:
        text = f"activity '{attempt.call.info.name}' timed out (start_to_close)"
        self._terminate(attempt, Failure(text, kind=Kind.TIMEOUT))

    def _leave(self, attempt: _Attempt) -> None:
        """Remove an attempt; terminate its process if the attempt has no outcome, because it was released."""
        self._attempts.pop(attempt.call.attempt_id, None)
        for timer in (attempt.limit_timer, attempt.cancel_timer):
            if timer is not None:
                timer.cancel()
        process = attempt.process
        if process is None:
            if attempt in self._waiting:
                self._waiting.remove(attempt)
            self._slots.processes += 1
        elif process.attempt_id == attempt.call.attempt_id:
            process.terminate()

    def cancel(self, attempt_id: int, *, over: bool) -> None:
        """Cancel an attempt: by its next heartbeat within a second, otherwise, or if `over`, by a signal."""
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            return
        if attempt.process is None:
            attempt.end(asyncio.CancelledError())
        elif over:
            self._terminate(attempt, asyncio.CancelledError())
        elif attempt.cancel_timer is None:
            attempt.process.send(Cancel(attempt_id))
            unheeded = asyncio.CancelledError()
            loop = asyncio.get_running_loop()
            attempt.cancel_timer = loop.call_later(CANCEL_SECONDS, self._terminate, attempt, unheeded)

    def _terminate(self, attempt: _Attempt, outcome: BaseException) -> None:
        if attempt.process is not None:
            attempt.process.terminate()
        attempt.end(outcome)

    # processes

    def _grow(self) -> None:
        """Start processes if none is idle or starting: as many as exist, so that few stay idle."""
        if self._closed or self._idle or self._pause is not None:
            return
        if any(not (process.ready or process.doomed) for process in self._processes):
            return
        count = len(self._processes)
        for _ in range(min(self._limit - count, max(1, count))):
            process = ActivityProcess(self._modules, self._received)
            self._processes[process] = asyncio.get_running_loop().create_task(self._live(process))

    async def _live(self, process: ActivityProcess) -> None:
        try:
            await process.run()
        finally:
            del self._processes[process]
            self._exited(process)

    def _exited(self, process: ActivityProcess) -> None:
        attempt = None if process.attempt_id is None else self._attempts.get(process.attempt_id)
        if attempt is not None:
            text = f"the process that ran the activity died ({_described(process)})"
            process.attempt_id = None
            attempt.end(Failure(text, kind=Kind.UNAVAILABLE))
        if process in self._idle:
            self._idle.remove(process)
            self._slots.processes -= 1
            self._offered()
        if self._closed:
            return
        if not process.served and not process.doomed:
            self._failed_to_start(process)
        self._grow()

    def _failed_to_start(self, process: ActivityProcess) -> None:
        """Wait before another process is started, because the cause may persist."""
        self._failed_starts += 1
        pause = min(FIRST_RESTART_SECONDS * 2 ** (self._failed_starts - 1), LONGEST_RESTART_SECONDS)
        reason = f"a process for activities died before it could run one ({_described(process)})"
        if not process.ready:
            reason += "; put code that starts something under `if __name__ == '__main__':`"
        log.error("%s; the next one is started in %g s", reason, pause)
        if self._pause is None:
            self._pause = asyncio.get_running_loop().call_later(pause, self._paused)
        if self._broken is None and self._failed_starts >= FAILED_STARTS_LIMIT and not self._ever_ready:
            self._broken = reason
            self._slots.processes += 1
            self._assign()
            self._offered()

    def _paused(self) -> None:
        self._pause = None
        self._grow()

    def _received(self, process: ActivityProcess, message: FromProcess) -> None:
        """Handle a message of a process."""
        if isinstance(message, Ready):
            self._is_ready(process, message)
            return
        attempt = self._attempts.get(message.attempt_id)
        if isinstance(message, ProcessHeartbeat):
            if attempt is not None:
                self._beaten(attempt, message)
            return
        process.attempt_id = None
        if attempt is not None:
            attempt.end(_outcome(message))
        self._rest(process)

    def _beaten(self, attempt: _Attempt, beat: ProcessHeartbeat) -> None:
        if beat.cancelled and attempt.cancel_timer is not None:
            attempt.cancel_timer.cancel()  # the function has received the cancel, and may clean up
        attempt.beat(beat.details)

    def _is_ready(self, process: ActivityProcess, ready: Ready) -> None:
        self._ever_ready = True
        for problem in ready.problems:
            if problem not in self._reported:
                self._reported.add(problem)
                log.error("a process for activities cannot import %s", problem)
        if self._broken is not None:
            self._broken = None
            self._slots.processes -= 1
        self._rest(process)
        self._offered()

    def _rest(self, process: ActivityProcess) -> None:
        """Offer a process without an attempt, unless it is to exit."""
        if process.doomed or self._closed:
            return
        if process.served:
            self._failed_starts = 0
        if process.served >= self._attempts_per_process:
            process.terminate()
            return
        self._idle.append(process)
        self._slots.processes += 1
        self._assign()

    # the end

    def close(self) -> None:
        """Terminate all processes, and start no more."""
        self._closed = True
        self._slots.processes -= len(self._idle)
        self._idle.clear()
        if self._pause is not None:
            self._pause.cancel()
        for process in tuple(self._processes):
            process.terminate()

    def kill(self) -> None:
        """Kill all processes."""
        self.close()
        for process in tuple(self._processes):
            process.kill()

    @property
    def alive(self) -> bool:
        """Return True while a process has not exited."""
        return bool(self._processes)


def _outcome(message: Returned | Raised) -> "Payload | BaseException":
    if isinstance(message, Returned):
        return message.result
    if message.cancelled:
        return asyncio.CancelledError(message.failure.message)
    return RaisedInProcess(message.failure)


def _described(process: ActivityProcess) -> str:
    code: Any = process.exit_code
    if code is None:
        return "it could not be started"
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def address_of(definition: Definition) -> tuple[str, str]:
    """Return the module and the name by which a new process imports the function."""
    function = definition.function
    # A spawned process loads the main program under another name.
    module = "__mp_main__" if function.__module__ == "__main__" else function.__module__
    return module, function.__qualname__
