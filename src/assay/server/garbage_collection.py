"""The garbage collector of a process that runs only an engine or a worker."""

import gc

from assay.core.model.limits import COLLECTOR_THRESHOLDS


def freeze_startup_objects() -> None:
    """Exempt all objects of the start-up from collection: they live as long as the process."""
    gc.collect()
    gc.freeze()


def settle() -> None:
    """Freeze the objects of the start-up and collect new ones less often, in a process without user code."""
    freeze_startup_objects()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
