"""How both ends of the exchange learn that there is something to say."""

import asyncio
from collections.abc import Callable


class Bell(asyncio.Event):
    """An event that also calls whoever can act on it at once: a connection that can be spoken on."""

    def __init__(self) -> None:
        super().__init__()
        self.wake: Callable[[], object] | None = None

    def ring(self) -> None:
        """There is something to say; once is enough until it is cleared."""
        if not self.is_set():
            self.set()
            if self.wake is not None:
                self.wake()
