"""Thresholds of Python's garbage collector for a process that runs a worker.

A worker holds many objects for long and leaves no cycles. By Python's own thresholds a thousand new runs are enough to
look through all objects, several times a second; each pass pauses timers for tens of milliseconds and frees nothing.
"""

import gc

from assay.core.model.limits import COLLECTOR_THRESHOLDS


def collect_less_often() -> None:
    """Raise the collector's thresholds, unless the program has set higher ones or turned the collector off."""
    if 0 < gc.get_threshold()[0] < COLLECTOR_THRESHOLDS[0]:
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
