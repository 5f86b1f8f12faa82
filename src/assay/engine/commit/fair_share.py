"""Chooses the requests of the next batch: a namespace with many callers must not delay other namespaces."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class FromCaller(Protocol):
    """A request, perhaps of a caller over the network."""

    caller: str | None
    """The namespace of the caller; None for requests of workers, timers, the outbox and embedded callers."""


P = TypeVar("P", bound=FromCaller)


def fair_share(queue: Sequence[P], size: int) -> tuple[list[P], list[P]]:
    """Split a queue longer than a batch into the next batch and the rest; both keep the order of the queue.

    Requests without a caller come first, because they finish work in progress and free its slots. A quarter of the
    batch is reserved for callers: busy workers must not starve new starts. Namespaces of callers take turns; within a
    namespace the order of arrival counts.
    """
    lanes: dict[str | None, list[int]] = {}
    for place, pending in enumerate(queue):
        lanes.setdefault(pending.caller, []).append(place)
    internal = lanes.pop(None, [])
    callers = len(queue) - len(internal)
    taken = set(internal[: size - min(callers, size // 4)])
    turns = [iter(lane) for lane in lanes.values()]
    while turns and len(taken) < size:
        nonempty = []
        for lane in turns:
            head = next(lane, None)
            if head is not None and len(taken) < size:
                taken.add(head)
                nonempty.append(lane)
        turns = nonempty
    batch = [pending for place, pending in enumerate(queue) if place in taken]
    return batch, [pending for place, pending in enumerate(queue) if place not in taken]
