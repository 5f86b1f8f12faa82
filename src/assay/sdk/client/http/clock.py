"""The engine's time, estimated by the local monotonic clock and the timestamps of the engine's messages."""

import time

from assay.core.model.ids import SECOND, Time


class LearnedClock:
    """An estimate of the engine's time that steps back only by more than a second.

    A delayed message must not undo a better estimate, so smaller steps back are ignored.
    """

    def __init__(self) -> None:
        self._offset: Time | None = None

    def learn(self, engine_time: Time) -> None:
        """Update the estimate by the timestamp of a message that just arrived."""
        offset = engine_time - _steady()
        if self._offset is None or offset > self._offset or self._offset - offset > SECOND:
            self._offset = offset

    def now(self) -> Time:
        """Return the engine's time, slightly early by the delay of messages; 0 before the first message."""
        return 0 if self._offset is None else _steady() + self._offset


def _steady() -> Time:
    return time.monotonic_ns() // 1_000
