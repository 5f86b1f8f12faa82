"""Thresholds of Python's garbage collector for a process that runs a worker.

A worker holds many long-lived objects and creates no cycles. With Python's default thresholds a thousand new runs
trigger a full collection, several times a second; each pauses timers for tens of milliseconds and frees nothing.
"""

import gc

from assay.core.model.limits import COLLECTOR_THRESHOLDS


def collect_less_often() -> None:
    """Raise the collector's thresholds, unless the program has set higher ones or disabled the collector."""
    if 0 < gc.get_threshold()[0] < COLLECTOR_THRESHOLDS[0]:
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
