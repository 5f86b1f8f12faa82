"""Activities that run in processes of their own: a new process must find them, so they live in a module."""

import os
import signal
import sys
import time
from typing import Any

from assay.sdk.workflow.activity_context import ActivityContext


def process_number() -> int:
    return os.getpid()


def counts(ctx: ActivityContext, number: int) -> Any:
    """Says how far it is, and fails once."""
    begun = ctx.heartbeat_details or 0
    for at in range(begun, number):
        ctx.heartbeat(at + 1)
        if at + 1 == number // 2 and not begun:
            raise ValueError(f"stumbled at {at + 1}")
    return {"begun": begun, "attempt": ctx.info().attempt}


def goes_on(ctx: ActivityContext) -> None:
    """Until it is told to stop."""
    while True:
        ctx.heartbeat()
        time.sleep(0.01)  # noqa: TID251  # as activities do


def sleeps(seconds: float) -> None:
    time.sleep(seconds)  # noqa: TID251  # as activities do


def leaves() -> None:
    sys.exit(3)


def dies() -> None:
    os._exit(3)


def greets(name: str = "World") -> str:
    return f"Hello, {name}!"


def interrupts() -> None:
    raise KeyboardInterrupt("in a process")


def says(text: str) -> None:
    print(text)  # noqa: T201  # as activities do


def ignores_sigterm(path: str) -> None:
    """Write the number of its process, and outlive SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(f"{path}.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{path}.new", path)
    while True:
        time.sleep(0.01)  # noqa: TID251  # as activities do


class Declined(LookupError):
    """A failure with a class of its own."""


def declines() -> None:
    raise Declined("no money")


def cannot_be_sent() -> object:
    return object()
