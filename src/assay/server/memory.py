"""The garbage collector in processes that are ours alone: `assay serve` and `assay run`."""

import gc
from typing import Final

OBJECTS: Final = 10_000
"""New objects before the collector looks at them; our own code leaves it no cycles, so mostly it looks for nothing."""


def settle() -> None:
    """What was made at start-up stays: the collector need not look at it ever again, and less often at the rest."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, 20, 20)
