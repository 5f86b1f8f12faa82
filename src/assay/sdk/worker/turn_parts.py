"""The end of a history that a worker has read."""

from collections.abc import Sequence

from assay.core.model.events import Recorded


def is_end(events: Sequence[Recorded]) -> bool:
    """Return whether the last event closes its run."""
    return bool(events) and events[-1].event.closes is not None
