"""Strict mode: clocks and random sources raise in workflow code, because each replay would get other values.

The functions are replaced in all modules of the process when the first strict worker begins. A replaced function calls
its original everywhere but in the code of a strict run; `logging` and imports may call the originals there as well. A
reference that is older, such as a parameter's default, keeps the original.
"""

import functools
import os
import random
import secrets
import sys
import threading
import time
import uuid
from typing import Any, Final

from assay.sdk.workflow.replay import guard
from assay.sdk.workflow.replay.workflow_flag import FLAG, WorkflowIOError

_ADVICE: Final = {
    "time": "ctx.now()",
    "random": "ctx.random()",
    "uuid": "ctx.uuid4(), ctx.uuid1() or ctx.uuid7()",
    "os": "ctx.random_bytes(count)",
    "secrets": "ctx.random_bytes(count)",
}
_FUNCTIONS: Final = {
    time: ("time", "time_ns", "monotonic", "monotonic_ns"),
    random: tuple(name for name in random.__all__ if not isinstance(getattr(random, name), type)),
    uuid: ("uuid1", "uuid4"),
    os: ("urandom",),
    secrets: ("choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe"),
}

_installing: Final = threading.Lock()
_installed = False


def install() -> None:
    """Replace the functions, once per process."""
    global _installed
    with _installing:
        if not _installed:
            originals = [
                (module, name, getattr(module, name)) for module, names in _FUNCTIONS.items() for name in names
            ]
            guard.replace(
                {id(original): _refusing(original, module.__name__, name) for module, name, original in originals}
            )
        _installed = True


def _refusing(original: Any, module: str, name: str) -> Any:
    """Return a function that raises in the code of a strict run, and calls its original elsewhere."""

    def refusing(*args: Any, **options: Any) -> Any:
        # `inside` is the loop of the run, and True or False outside of a turn.
        if getattr(FLAG.inside, "strict", False) and not guard.is_permitted(sys._getframe(1)):
            raise WorkflowIOError(
                f"workflow code called {module}.{name}, which returns another value on every replay: "
                f"use {_ADVICE[module]}, or ctx.side_effect, whose value is recorded"
            )
        return original(*args, **options)

    return functools.update_wrapper(refusing, original)
