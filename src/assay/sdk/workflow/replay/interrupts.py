"""Exceptions that one thread raises in another: the one way to end code that never returns.

CPython delivers such an exception at the next bytecode of the target thread, wherever that is. Two rules keep it inside
a workflow's turn. The watchdog raises only while the turn is under way: it announces the exception in `interrupted`
first, and looks at `is_running` after that. And a turn that ends looks at `interrupted` after it has ended, waits until
the watchdog has raised, and withdraws an exception that has not been delivered.
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
        """The id of the thread that executes the turn."""
        ...

    def is_running(self) -> bool:
        """Return whether a turn is under way."""
        ...

    def pause(self) -> None:
        """End the turn after the current callback."""
        ...


def interrupt(loop: Interruptible, reason: str) -> bool:
    """Raise `RunawayError` in the turn of `loop`; return False if the turn has ended.

    Args:
        loop: The loop whose thread never comes back.
        reason: The message of the failed task.
    """
    loop.raising = True
    try:
        before, loop.interrupted = loop.interrupted, reason
        if not loop.is_running():
            loop.interrupted = before
            return False
        loop.pause()  # the callbacks behind the one that is interrupted do not run any more
        return _raise_in(loop.thread, RunawayError)
    finally:
        loop.raising = False


def withdraw(loop: Interruptible) -> None:
    """Take back an exception that has not been delivered; called in the turn's own thread, at the turn's end."""
    while True:
        try:
            while loop.raising:  # for the length of one call in the watchdog's thread
                pass
            _raise_in(loop.thread, None)
            return
        except RunawayError:
            continue  # delivered just now, where it does no harm


def _raise_in(thread: int, error: type[BaseException] | None) -> bool:
    import ctypes  # programs that only manage workflows never need it

    raised = ctypes.py_object() if error is None else ctypes.py_object(error)
    return bool(ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised))
