"""Chooses the requests of the next batch so that one namespace with many callers does not keep the others waiting."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class FromCaller(Protocol):
    """A request that may come from a caller over the network."""

    caller: str | None
    """The namespace of the caller; None for requests of workers, timers, the outbox and embedded callers."""


P = TypeVar("P", bound=FromCaller)


def fair_share(queue: Sequence[P], size: int) -> tuple[list[P], list[P]]:
    """Split a queue that is longer than a batch into the next batch and the rest; both keep the order of the queue.

    Requests without a caller come first, because they end work that was begun; a quarter of the batch is for callers
    all the same. Callers' namespaces take turns, and within a namespace the order of arrival counts.
    """
    lanes: dict[str | None, list[int]] = {}
    for place, pending in enumerate(queue):
        lanes.setdefault(pending.caller, []).append(place)
    internal = lanes.pop(None, [])
    callers = len(queue) - len(internal)
    taken = set(internal[: size - min(callers, size // 4)])
    turns = [iter(lane) for lane in lanes.values()]
    while turns and len(taken) < size:
        going_on = []
        for lane in turns:
            following = next(lane, None)
            if following is not None and len(taken) < size:
                taken.add(following)
                going_on.append(lane)
        turns = going_on
    batch = [pending for place, pending in enumerate(queue) if place in taken]
    return batch, [pending for place, pending in enumerate(queue) if place not in taken]
