"""The awaited results of a run: of activities, children and inline steps. The loop owns the timers."""

import asyncio
from typing import Any

from assay.core.model.payload import Payload
from assay.sdk.workflow.channels import SourceChannel
from assay.sdk.workflow.replay.commands import Commands
from assay.sdk.workflow.replay.completion import ChildFuture, StepCall, StepOrder
from assay.sdk.workflow.replay.held_orders import held_activities, held_children
from assay.sdk.workflow.replay.inputs import step_difference
from assay.sdk.workflow.replay.journal import diverged


class Futures:
    """The futures of one run, by the ids of their commands."""

    __slots__ = (
        "_commands", "_started", "activities", "activity_orders", "child_orders", "children", "first_children",
        "requests", "sends", "sources", "steps",
    )  # fmt: skip

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self.activity_orders = held_activities(commands)
        self.child_orders = held_children(commands)
        self.activities: dict[int, asyncio.Future[Payload]] = {}
        self.children: dict[int, ChildFuture] = {}
        """Children without an outcome, by seq."""
        self.first_children: dict[tuple[str, str], ChildFuture] = {}
        """The first child of each namespace and id, with or without an outcome."""
        self.sends: dict[int, asyncio.Future[None]] = {}
        self.requests: dict[tuple[str, int], asyncio.Future[None]] = {}
        """Cancels and terminations of other workflows without an outcome, by kind and seq."""
        self.steps: dict[int, tuple[StepCall, asyncio.Future[Payload]]] = {}
        self.sources: list[SourceChannel[Any]] = []
        """Channels of inputs from outside: a run whose code waits on one of them is not deadlocked."""
        self._started: set[int] = set()
        """Steps that were passed to the worker."""

    @property
    def pending(self) -> bool:
        """Return True while an outcome of an activity, a child or a sent message can come."""
        return bool(self.activities or self.sends or self.requests) or self.child_orders.pending > 0

    def add_step(self, order: StepOrder) -> asyncio.Future[Payload]:
        """Order an inline step; its outcome arrives as an input event."""
        commands = self._commands
        step = StepCall(commands.count("step"), order)
        future: asyncio.Future[Payload] = commands.loop.create_future()
        self.steps[step.seq] = (step, future)
        return future

    def take_step(self, seq: int, name: str, input_hash: str | None = None) -> asyncio.Future[Payload] | None:
        """Return the future of a step whose outcome is recorded; raise if the code ordered another step."""
        if seq > self._commands.counters["step"]:
            self._commands.check_ordered("step", seq, name)
        self._started.discard(seq)
        found = self.steps.pop(seq, None)
        if found is None:
            return None
        order = found[0].order
        if order.name != name:
            raise diverged("step", seq, f"step {seq} '{name}'", f"step {seq} '{order.name}'")
        if input_hash is not None and input_hash != order.input_hash:
            self._commands.differ(step_difference(seq, order, input_hash))
        return found[1]

    def forget_child(self, child: ChildFuture) -> None:
        """Forget a child that code has cancelled before it was ordered."""
        self.children.pop(child.seq, None)
        for key, known in tuple(self.first_children.items()):
            if known is child:
                del self.first_children[key]

    def wants_step(self, seq: int) -> bool:
        """Return whether the code still waits for a step; outcomes of cancelled steps are not reported."""
        found = self.steps.get(seq)
        return found is not None and not found[1].done()

    def wants_any_step(self) -> bool:
        """Return whether the code waits for a step."""
        return any(not future.done() for _, future in self.steps.values())

    def new_steps(self) -> list[str]:
        """Return the names of the awaited steps, for messages."""
        return [f"step {seq} '{step.order.name}'" for seq, (step, future) in self.steps.items() if not future.done()]

    def fresh_steps(self) -> tuple[StepCall, ...]:
        """Return the steps to start; cancelled steps are forgotten."""
        fresh = []
        for step, future in tuple(self.steps.values()):
            if future.done():
                del self.steps[step.seq]
            elif step.seq not in self._started:
                self._started.add(step.seq)
                fresh.append(step)
        return tuple(fresh)
