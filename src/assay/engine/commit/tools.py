"""The parts of the engine that every batch attempt uses."""

from collections.abc import Awaitable, Callable

from assay.engine.clock import Clock
from assay.engine.commit.cache import RunCache
from assay.engine.dispatch import Dispatcher
from assay.engine.ids import BlockIds
from assay.engine.presence import Presence
from assay.storage.ports import Store


class Tools:
    """The parts of the engine used by every batch attempt."""

    __slots__ = ("cache", "clock", "create_namespace", "dispatcher", "ids", "presence", "store")

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: BlockIds,
        dispatcher: Dispatcher,
        cache: RunCache,
        presence: Presence,
    ) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.dispatcher = dispatcher
        self.cache = cache
        self.presence = presence
        self.create_namespace: Callable[[str], Awaitable[None]] | None = None
        """Creates the namespace of a child on its first use; None for an engine without a registry."""
