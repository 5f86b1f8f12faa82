"""The engine's time as a client knows it: its own steady clock and what it learned from the engine's messages (R12)."""

import time

from assay.core.model.ids import SECOND, Time


class LearnedClock:
    """Never goes back by less than a second: a message that was under way for longer must not undo what is known."""

    def __init__(self) -> None:
        self._offset: Time | None = None

    def learn(self, engine_time: Time) -> None:
        """The engine said what time it is, a moment ago."""
        offset = engine_time - _steady()
        if self._offset is None or offset > self._offset or self._offset - offset > SECOND:
            self._offset = offset

    def now(self) -> Time:
        """The engine's time, a little less than it really is; 0 as long as nothing was heard of it."""
        return 0 if self._offset is None else _steady() + self._offset


def _steady() -> Time:
    return time.monotonic_ns() // 1_000
