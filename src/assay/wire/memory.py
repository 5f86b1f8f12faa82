"""The garbage collector, told what kind of program this is: one that holds many objects for long and leaves no cycles.

By Python's own measure a thousand new workflows are reason enough to look through everything there is, several times a
second; each time is a pause of tens of milliseconds in which no timer fires, and finds nothing.
"""

import gc
from typing import Final

OBJECTS: Final = 10_000
"""New objects before the collector looks at them."""
ROUNDS: Final = 20
"""Looks at the new ones before it looks at older ones, too."""


def spare() -> None:
    """Collect less often, unless the program has chosen something of the kind, or nothing at all, itself."""
    if 0 < gc.get_threshold()[0] < OBJECTS:
        gc.set_threshold(OBJECTS, ROUNDS, ROUNDS)


def settle() -> None:
    """For processes that are ours alone: what was made at start-up stays, and is never looked at again."""
    gc.collect()
    gc.freeze()
    spare()
