"""Exceptions that one thread raises in another: the only way to end code that never returns.

CPython delivers the exception at the next bytecode of the target thread, wherever that is. Two rules confine it to a
workflow's turn. The watchdog raises only during a turn: it sets `interrupted` first, and checks `is_running` after
that. And the end of a turn checks `interrupted` after clearing `is_running`, waits until the watchdog has raised, and
withdraws an undelivered exception.
"""

from __future__ import annotations

from typing import Protocol

from assay.core.model.errors import RunawayError


class Interruptible(Protocol):
    """A loop whose turn can be interrupted."""

    interrupted: str | None
    raising: bool

    @property
    def thread(self) -> int:
        """Return the id of the thread that executes the turn."""
        ...

    def is_running(self) -> bool:
        """Return whether a turn is executing."""
        ...

    def pause(self) -> None:
        """End the turn after the current callback."""
        ...


def interrupt(loop: Interruptible, reason: str) -> bool:
    """Raise `RunawayError` in the turn of `loop`; return False if the turn has ended.

    Args:
        loop: The loop whose turn does not return.
        reason: The message of the failed task.
    """
    loop.raising = True
    try:
        before, loop.interrupted = loop.interrupted, reason
        if not loop.is_running():
            loop.interrupted = before
            return False
        loop.pause()  # the remaining callbacks of the turn must not run
        return _raise_in(loop.thread, RunawayError)
    finally:
        loop.raising = False


def withdraw(loop: Interruptible) -> None:
    """Withdraw an undelivered exception; called in the turn's own thread, at the turn's end."""
    while True:
        try:
            while loop.raising:  # spins for one short call in the watchdog's thread
                pass
            _raise_in(loop.thread, None)
            return
        except RunawayError:
            continue  # delivered here, where it is harmless


def _raise_in(thread: int, error: type[BaseException] | None) -> bool:
    import ctypes  # programs without workers do not pay for the import

    raised = ctypes.py_object() if error is None else ctypes.py_object(error)
    return bool(ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised))
