"""The choice of where commits run: on the event loop while the disk is fast, in a thread while the disk is slow."""

from typing import Final

LAST_COMMITS: Final = 100
MAX_SLOW_COMMITS: Final = LAST_COMMITS // 2
BAD_COMMITS: Final = 5
"""The number of very slow commits in a row that moves commits to the thread at once: at 50 ms each, fifty of them would
block the loop for seconds."""
BAD_FACTOR: Final = 10
CALM_FACTOR: Final = 0.5
"""Commits return to the loop when most of them take less than this fraction of the slow time: hysteresis."""

_WINDOW: Final = (1 << LAST_COMMITS) - 1
_BAD: Final = (1 << BAD_COMMITS) - 1


class CommitPace:
    """The durations of the last hundred commits, as a bit per commit and threshold.

    More than half of the bits are 1 if the median exceeds the threshold.
    """

    def __init__(self, slow_seconds: float, *, in_thread: bool) -> None:
        self.in_thread = in_thread
        """True if commits should run in a thread."""
        self._slow_seconds = slow_seconds
        self._calm_seconds = slow_seconds * CALM_FACTOR
        self._seen = self._slow = self._bad = self._uncalm = 0

    def add(self, seconds: float) -> None:
        """Record the duration of a commit, and update `in_thread`."""
        if seconds <= self._calm_seconds and not self._uncalm and not self.in_thread:
            return  # a fast disk: all bits are 0, and stay so
        slow = self._slow_seconds
        self._seen += 1
        self._slow = (self._slow << 1 | (seconds > slow)) & _WINDOW
        self._bad = (self._bad << 1 | (seconds > slow * BAD_FACTOR)) & _BAD
        self._uncalm = (self._uncalm << 1 | (seconds > self._calm_seconds)) & _WINDOW
        if self.in_thread:
            if self._seen >= LAST_COMMITS and self._uncalm.bit_count() < MAX_SLOW_COMMITS:
                self._change(in_thread=False)
        elif self._bad == _BAD or self._slow.bit_count() > MAX_SLOW_COMMITS:
            self._change(in_thread=True)

    def _change(self, *, in_thread: bool) -> None:
        self.in_thread = in_thread
        self._seen = self._slow = self._bad = self._uncalm = 0
