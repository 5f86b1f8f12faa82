"""Activities and children ordered while too many are pending: held in the worker, and sent as others end.

Held orders receive their seq at the call, and whether an order is held depends only on the calls of the code and the
applied inputs; so a replay holds and sends the same orders at the same places.
"""

from typing import Final

import msgspec

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.limits import LIMITS
from assay.sdk.workflow.replay.commands import Commands
from assay.sdk.workflow.replay.completion import ChildFuture
from assay.sdk.workflow.replay.journal import UNSTARTED

HELD_MARGIN: Final = 100
"""The distance from the engine's own limits at which orders are held, because other callers may add pending work."""


class HeldOrders:
    """The orders of one kind of one run: how many are pending, and which are held until fewer are.

    Args:
        commands: Issues the orders.
        kind: The name of the kind in the journal.
        limit: The maximum number of pending orders.
    """

    __slots__ = ("_commands", "_held", "_kind", "_limit", "pending")

    def __init__(self, commands: Commands, kind: str, limit: int) -> None:
        self._commands = commands
        self._kind = kind
        self._limit = limit
        self._held: dict[int, tuple[str, cmd.AnyCommand, ChildFuture | None]] = {}
        """By seq, in the order of the calls."""
        self.pending = 0
        """Orders that were issued and whose outcome has not been applied."""

    def add(self, seq: int, name: str, command: cmd.AnyCommand, spawned: ChildFuture | None = None) -> ev.Event | None:
        """Issue an order, or hold it; return the recorded event of a replayed order.

        Code that spawns waits until the order is issued (`ChildFuture.sent`), on a replay as well: it runs on after the
        same inputs as before.
        """
        is_full = bool(self._held) or self.pending >= self._limit
        # An order above the limit may be recorded all the same, by a version without this limit: an open run would
        # otherwise end its replay without a command that its history has.
        if is_full and (spawned is not None or not self._commands.journal.has(self._kind, seq)):
            self._held[seq] = name, command, spawned
            if spawned is not None:
                spawned.sent = self._commands.loop.create_future()
            return None
        self.pending += 1
        return self._commands.order(self._kind, seq, name, command)

    def end_one(self) -> None:
        """Count the outcome of an order, and issue held orders in its place; called before code runs on the outcome."""
        self.pending -= 1
        while self._held and self.pending < self._limit:
            seq = next(iter(self._held))
            name, command, spawned = self._held.pop(seq)
            self.pending += 1
            echo = self._commands.order(self._kind, seq, name, command)
            if spawned is not None and spawned.sent is not None:
                spawned.unstarted = echo is UNSTARTED
                if not spawned.sent.done():
                    spawned.sent.set_result(None)

    def give_up(self, seq: int) -> bool:
        """Drop an order that code has cancelled before it was sent; return False if it was not held."""
        return self._held.pop(seq, None) is not None

    def mark_unaware(self) -> None:
        """Mark held children as ordered before a cancel request was applied; see `Commands.mark_children_unaware`."""
        for seq, (name, command, spawned) in self._held.items():
            if isinstance(command, cmd.StartChildWorkflow):
                self._held[seq] = name, msgspec.structs.replace(command, unaware=True), spawned


def held_activities(commands: Commands) -> HeldOrders:
    """Return the activity orders of a new run."""
    return HeldOrders(commands, "activity", LIMITS.pending_activities - HELD_MARGIN)


def held_children(commands: Commands) -> HeldOrders:
    """Return the child orders of a new run."""
    return HeldOrders(commands, "child workflow", LIMITS.pending_children - HELD_MARGIN)
