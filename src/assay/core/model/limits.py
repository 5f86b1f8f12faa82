"""Shared figures: the length of leases and stops, and limits on the resources of one caller."""

from typing import Final

import msgspec

from assay.core.model.ids import SECOND, Time

WORKER_LEASE: Final[Time] = 10 * SECOND
"""The lease of a worker over the network. Work is leased again after this time without an extension; the SDK extends
leases after a third of this time."""
STARTUP_GRACE: Final[Time] = WORKER_LEASE
"""A starting engine extends the leases of workers over the network by this time: they have to reconnect first."""

STOP_SECONDS: Final = 10
"""The time from a request to stop until an engine or a worker has exited; the steps below leave time for the next."""
FORCED_STOP_SECONDS: Final = STOP_SECONDS - 0.4
"""The time from a request to stop until a process is ended, whatever its code is doing."""
FORCED_EXIT_CODE: Final = 70
"""The exit code of a process that ended while its code was still running."""
LAST_LOG_SECONDS: Final = 0.3
"""The time that an ending process waits for its last log line: the stream may be full, or its lock taken."""
ABANDONED_EXIT_CODE: Final = 75
"""The exit code of a worker with too many threads that never returned; a restarted worker begins without them."""
SERVER_DRAIN_SECONDS: Final = STOP_SECONDS - 1
"""The time from a request to stop until open requests to an engine are cut off."""
LISTENER_DRAIN_SECONDS: Final = STOP_SECONDS - 1.5
"""The time from a request to stop until a worker is cancelled."""
WORKER_DRAIN_SECONDS: Final = STOP_SECONDS - 2.0
"""The time from a request to stop until a worker releases unfinished work."""

COLLECTOR_THRESHOLDS: Final = (10_000, 20, 20)
"""Thresholds of Python's garbage collector in engines and workers: new objects before a collection of the youngest
generation, and collections of a generation before a collection of the next."""

CACHE_BYTES: Final = 64 * 1024 * 1024
"""The size of the cache of runs in an engine; the variable `ASSAY_CACHE_BYTES` overrides this default."""
TAIL_BYTES: Final = 64 * 1024
TAIL_EVENTS: Final = 1_000
"""A longer tail of unseen events is not kept in memory, but read from the store when needed."""

RUNS_PAGE: Final = 50
LARGEST_RUNS_PAGE: Final = 10_000
"""Runs in one page of a list: the default and the maximum; a cursor leads to the next page."""
RUNS_PAGE_BYTES: Final = 8 * 1024 * 1024
"""A page ends with the run whose documents (input, result, memo, search attributes) take the page past this size."""

EVENTS_PAGE_BYTES: Final = 8 * 1024 * 1024
"""A page of a history ends with the event that takes the page past this size."""
JOURNAL_PAGE_BYTES: Final = 8 * 1024 * 1024
"""A page of the journal ends with the row whose payload takes the page past this size."""


class Limits(msgspec.Struct, frozen=True):
    """The limits of an engine, with their values; part of the answer of the version route."""

    payload_bytes: int = 2 * 1024 * 1024
    history_events: int = 50_000
    history_bytes: int = 50 * 1024 * 1024
    pending_activities: int = 2_000
    pending_children: int = 2_000
    commands: int = 2_000
    signals: int = 10_000
    """Messages of one run that no accepted task has seen."""
    sends: int = 2_000
    """Messages that one run has sent and that have no outcome yet."""
    reopened_children: int = 1_000
    """Reopened children of one retried run, at all levels."""
    id_bytes: int = 255
    text_bytes: int = 16 * 1024
    """A text for people that is stored with a run or a schedule: a reason, a summary, details."""
    search_attributes: int = 32
    search_attribute_bytes: int = 2_048


LIMITS = Limits()
