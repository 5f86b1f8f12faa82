"""Free slots of a worker for activities that need more than one of its general slots."""


class Slots:
    """The free slots of a worker for the activities with certain names; activities with other names need none.

    Below zero there are more leased activities than slots: one was lost after it was offered.
    """

    __slots__ = ("free", "names")

    def __init__(self, names: frozenset[str] = frozenset(), free: int = 0) -> None:
        self.names = names
        self.free = free

    @property
    def exhausted(self) -> frozenset[str]:
        """Return the names of activities that cannot be leased at present."""
        return self.names if self.free <= 0 else frozenset()

    def reserve(self, name: str) -> None:
        """Take a slot for an activity, if activities with this name need one."""
        if name in self.names:
            self.free -= 1

    def release(self, name: str) -> None:
        """Give back the slot of an activity, if activities with this name need one."""
        if name in self.names:
            self.free += 1
