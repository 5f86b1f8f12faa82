"""Figures that several parts share: how long leases and stops take, and what one caller may cost."""

from typing import Final

import msgspec

from assay.core.model.ids import SECOND, Time

WORKER_LEASE: Final[Time] = 10 * SECOND
"""Work of a worker that sends nothing about it for so long is given to others; the SDK extends at a third of it."""
STARTUP_GRACE: Final[Time] = WORKER_LEASE
"""How long an engine that starts leaves leases to workers over the network, which have to find it first."""

STOP_SECONDS: Final = 10
"""An engine or a worker has exited so long after it was asked to stop; what follows leaves time for the rest."""
FORCED_STOP_SECONDS: Final = STOP_SECONDS - 0.4
"""A process that still runs so long after it was asked to stop is ended, whatever its code is doing."""
FORCED_EXIT_CODE: Final = 70
"""Of a process that had to end while code of it was still running."""
LAST_LOG_SECONDS: Final = 0.3
"""How long a process that has to end waits for its last log line: the stream may be full, or its lock taken."""
ABANDONED_EXIT_CODE: Final = 75
"""Of a worker that ended because too many of its threads never came back; started again, it has none."""
SERVER_DRAIN_SECONDS: Final = STOP_SECONDS - 1
"""Requests that an engine is still answering are cut off then."""
LISTENER_DRAIN_SECONDS: Final = STOP_SECONDS - 1.5
"""A worker that has not ended by itself is cancelled then."""
WORKER_DRAIN_SECONDS: Final = STOP_SECONDS - 2.0
"""A worker gives back what it has not finished then."""

COLLECTOR_THRESHOLDS: Final = (10_000, 20, 20)
"""Of Python's garbage collector in engines and workers: new objects before a collection of the youngest generation, and
collections of a generation before one of the next."""

CACHE_BYTES: Final = 64 * 1024 * 1024
"""Folded runs that an engine keeps in memory, unless `ASSAY_CACHE_BYTES` changes it."""
TAIL_BYTES: Final = 64 * 1024
TAIL_EVENTS: Final = 1_000
"""Beyond either, a run's unseen events are not kept in memory: they are read from the store when they are needed."""

RUNS_PAGE: Final = 50
LARGEST_RUNS_PAGE: Final = 10_000
"""Runs in one answer to a list: by default, and at most; a cursor leads to the rest."""
RUNS_PAGE_BYTES: Final = 8 * 1024 * 1024
"""A page ends with the run whose documents (input, result, memo, search attributes) take the page past this."""

EVENTS_PAGE_BYTES: Final = 8 * 1024 * 1024
"""A page of a history ends with the event that takes the page past this."""
JOURNAL_PAGE_BYTES: Final = 8 * 1024 * 1024
"""A page of the journal ends with the row whose payload takes the page past this."""


class Limits(msgspec.Struct, frozen=True):
    """Every bound with its default; shown by the engine to whoever asks."""

    payload_bytes: int = 2 * 1024 * 1024
    history_events: int = 50_000
    history_bytes: int = 50 * 1024 * 1024
    pending_activities: int = 2_000
    pending_children: int = 2_000
    commands: int = 2_000
    signals: int = 10_000
    reopened_children: int = 1_000
    """Of a retried run, down the tree."""
    id_bytes: int = 255
    text_bytes: int = 16 * 1024
    """Of a text for people that is kept with a run or a schedule: a reason, a summary, details."""
    search_attributes: int = 32
    search_attribute_bytes: int = 2_048


LIMITS = Limits()
