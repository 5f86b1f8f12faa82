"""Forked children: the connections belong to the parent process, therefore each store drops them without closing."""

import os
from typing import Protocol
from weakref import WeakSet


class ForkedStore(Protocol):
    """A store whose connections a forked child must not use."""

    def forked(self) -> None:
        """Drop the connections; called in the child, which must send nothing to the database."""
        ...


_stores: WeakSet[ForkedStore] = WeakSet()


def call_after_fork(store: ForkedStore) -> None:
    """Call `store.forked` in every child that this process forks from now on."""
    _stores.add(store)


def _forked() -> None:
    for store in tuple(_stores):
        store.forked()


os.register_at_fork(after_in_child=_forked)
