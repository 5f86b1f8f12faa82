"""SIGTERM and SIGINT of `assay serve`, received by a thread: a blocked event loop must not delay them.

The signals are blocked in all other threads, which inherit the mask from the main thread. A child process would inherit
the mask, too; the engine starts none.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from assay.core.model.limits import FORCED_EXIT_CODE, FORCED_STOP_SECONDS, LAST_LOG_SECONDS

log = logging.getLogger("assay.server")

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """The stop signals of a process, within a `with` block; created in the main thread.

    Args:
        forced_stop_seconds: Seconds from the first signal until the process exits, whatever it does.
    """

    def __init__(self, forced_stop_seconds: float = FORCED_STOP_SECONDS) -> None:
        self._seconds = forced_stop_seconds
        self._previous: set[signal.Signals] = set()
        self._thread = threading.Thread(target=self._wait, name="assay-signals", daemon=True)
        self._lock = threading.Lock()
        self._waiting: list[int] = []
        self._receive: Callable[[int], None] | None = None
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        self._previous = {signal.Signals(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)}
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        signal.pthread_kill(self._thread.ident or 0, SIGNALS[0])
        self._thread.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._previous)

    def connect(self, receive: Callable[[int], None] | None) -> None:
        """Call `receive` in the signals' thread with each signal, earlier signals included; None disconnects."""
        with self._lock:
            self._receive = receive
            waiting, self._waiting = self._waiting, []
        if receive is not None:
            for number in waiting:
                receive(number)

    def _wait(self) -> None:
        is_first = True
        while True:
            number = signal.sigwait(SIGNALS)
            if self._is_over.is_set():
                return
            if is_first:
                is_first = False
                threading.Thread(target=self._end_later, name="assay-stop", daemon=True).start()
            with self._lock:
                receive = self._receive
                if receive is None:
                    self._waiting.append(number)
            if receive is not None:
                receive(number)

    def _end_later(self) -> None:
        if not self._is_over.wait(self._seconds):
            text = "stopping took longer than %g s; this process ends"
            last = threading.Thread(target=log.critical, args=(text, self._seconds), daemon=True)
            last.start()
            last.join(LAST_LOG_SECONDS)
            os._exit(FORCED_EXIT_CODE)
