"""What comes out of running workflow code for a while."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from assay.core.model.commands import AnyCommand
from assay.core.model.policies import RetryPolicy
from assay.sdk.workflow.replay.determinism import WorkflowFuture


class StepOrder(msgspec.Struct, frozen=True):
    """An inline step as code asks for it; `attempt` is the number of its first try.

    `input_hash` is of the arguments as they were at the call: the step may change them, and a replay does not run it.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    retry: RetryPolicy
    timeout: float | None = None
    attempt: int = 1
    input_hash: str | None = None


class StepCall(msgspec.Struct, frozen=True):
    """An inline step that is to run in the worker as soon as what was ordered before it is durable (R3)."""

    seq: int
    order: StepOrder


class PausePoint(WorkflowFuture):
    """Where a speculative turn stops. A replay makes none, so it has no number (R5), and no cancel ends it early."""

    __slots__ = ()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.order = 0

    def cancel(self, msg: Any = None) -> bool:
        return False


class ChildFuture(WorkflowFuture):
    """The result of a child to come. Its id stands for one child, of one type, as long as the run lives."""

    __slots__ = ("workflow_type",)
    workflow_type: str


class Turn(msgspec.Struct, frozen=True):
    """The commands of a turn, in order, and what the worker has to do next.

    `paused` says that a speculative turn stopped at a side effect and goes on when it is acknowledged (R2); `failure`
    that the task cannot be done: (reason, message) of R21.
    """

    commands: tuple[AnyCommand, ...] = ()
    steps: tuple[StepCall, ...] = ()
    paused: bool = False
    closes: bool = False
    failure: tuple[str, str] | None = None

    @property
    def is_plain(self) -> bool:
        """Does it ask for steps, and for nothing else?"""
        return bool(self.steps) and not (self.commands or self.paused or self.closes or self.failure)
