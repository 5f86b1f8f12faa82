"""Planted bugs in orders that wait until others have ended, with a limit of one pending activity and one child."""

from msgspec.structs import replace

from assay.core.model.limits import LIMITS
from assay.sdk.workflow.replay import held_orders
from assay.sdk.workflow.replay.held_orders import HELD_MARGIN, HeldOrders
from simulation.mutants.planting import Mutant, Patch

SMALL = replace(LIMITS, pending_activities=HELD_MARGIN + 1, pending_children=HELD_MARGIN + 1)


def small_limits() -> list[Patch]:
    """Limits of the SDK that every program reaches."""
    return [(held_orders, "LIMITS", SMALL)]


def _unreleased() -> list[Patch]:
    def end_one(self: HeldOrders) -> None:
        self.pending -= 1

    return [*small_limits(), (HeldOrders, "end_one", end_one)]


HELD = {"kinds": ("all", "act", "effect", "group", "sleep", "child", "race", "limit", "drop", "signal")}
"""Without steps: one may run while an activity that was ordered before it is held."""
MANY = {"kinds": ("all", "act", "group"), "cached_runs": 1}
HELD_ORDERS = (Mutant("held orders are never sent", "liveness", _unreleased, faults=(), world=MANY),)
