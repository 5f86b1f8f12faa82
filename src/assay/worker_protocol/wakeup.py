"""The signal of an endpoint for its driver: the next message is ready, or all releases are decided."""

from collections.abc import Callable

from assay.core.model.replies import SettableFuture


class Wakeup:
    """A flag that calls a sender at once and resolves waiting futures."""

    __slots__ = ("_waiting", "is_set", "wake")

    def __init__(self) -> None:
        self.is_set = False
        self.wake: Callable[[], object] | None = None
        """Called whenever the flag is set."""
        self._waiting: list[SettableFuture] = []

    def set(self) -> None:
        """Set the flag; no-op for a flag that is set already."""
        if self.is_set:
            return
        self.is_set = True
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
        if self.wake is not None:
            self.wake()

    def clear(self) -> None:
        """Clear the flag."""
        self.is_set = False

    def resolve(self, future: SettableFuture) -> None:
        """Resolve a future when the flag is set: at once, or later."""
        if not self.is_set:
            self._waiting = [waiting for waiting in self._waiting if not waiting.done()]
            self._waiting.append(future)
        elif not future.done():
            future.set_result(None)
