"""A run that this worker holds: its coroutine, its lease, and what waits to be sent."""

import asyncio
import itertools
from collections import OrderedDict, deque
from collections.abc import Iterator

from assay.core.events import InputEvent
from assay.core.ids import RunId, RunKey
from assay.core.requests import ActivityOutcome, StepOutcome
from assay.sdk.replay.runtime import Execution
from assay.sdk.replay.turn import Turn

Outcome = tuple[StepOutcome | ActivityOutcome, InputEvent]
"""An outcome as it is reported, and the event that it is expected to become."""


class LiveRun:
    """One run in this worker. At most one turn of it is unacknowledged (R8); what comes meanwhile waits here."""

    __slots__ = (
        "epoch", "execution", "hand", "in_flight", "key", "leased", "news", "owed", "refused", "stride", "tasks",
        "turn", "waiting",
    )  # fmt: skip

    def __init__(self, key: RunKey, execution: Execution) -> None:
        self.key = key
        self.execution = execution
        self.epoch = 0
        self.leased = False
        self.hand = False
        """Does it occupy one of the worker's hands? A lease that came with a fused turn does not (R8)."""
        self.in_flight = False
        self.news = False
        self.turn: Turn | None = None
        self.owed = False
        """Is the turn still to be sent, because only its outcomes were so far?"""
        self.refused = False
        """Was a turn refused for what its code asked for, so that what follows ends the run?"""
        self.stride = 0
        """How many turns in a row have asked for nothing but steps."""
        self.waiting: deque[Outcome] = deque()
        self.tasks: dict[int, asyncio.Task[None]] = {}
        """The steps that run; they end with the run's life here, lest they run beside their own repetition."""

    @property
    def idle(self) -> bool:
        """May it be forgotten without losing anything that cannot be replayed?"""
        return not (self.leased or self.in_flight or self.waiting or self.tasks)


class LiveRuns:
    """The sticky cache: live runs, least recently used first out."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._runs: OrderedDict[RunId, LiveRun] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run_id: RunId) -> bool:
        return run_id in self._runs

    def has(self, run: LiveRun) -> bool:
        """Is it this very run that is here, and not another life of it?"""
        return self._runs.get(run.key.run_id) is run

    def __iter__(self) -> Iterator[LiveRun]:
        return iter(tuple(self._runs.values()))

    def get(self, run_id: RunId) -> LiveRun | None:
        """The run, if it is here."""
        run = self._runs.get(run_id)
        if run is not None:
            self._runs.move_to_end(run_id)
        return run

    def put(self, run: LiveRun) -> None:
        """Keep a run, and leave the idle ones that were not used for longest when there are too many."""
        self._runs[run.key.run_id] = run
        surplus = len(self._runs) - self._limit
        if surplus > 0:
            idle = (old for old in self._runs.values() if old.idle and old is not run)
            for old in tuple(itertools.islice(idle, surplus)):
                self.drop(old)

    def drop(self, run: LiveRun) -> None:
        """Leave a run; whoever serves it next replays it."""
        if self._runs.get(run.key.run_id) is run:
            del self._runs[run.key.run_id]
        for task in tuple(run.tasks.values()):
            task.cancel()
        run.execution.drop()
