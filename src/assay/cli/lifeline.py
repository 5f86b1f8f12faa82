"""A command that ends with the process that started it, however that ended: kill -9 leaves nobody to say so.

    python -m assay.cli.lifeline DESCRIPTOR COMMAND...

DESCRIPTOR is the reading end of a pipe. Nobody ever writes to it; when the last process that could is gone, it ends.
"""

import os
import signal
import sys
import threading
from typing import Final

KILL_AFTER_SECONDS: Final = 15.0
"""Engines and workers stop within ten (L4); who does not is stuck."""


def main() -> None:
    """Run the command, and stop it as SIGTERM would when the lifeline is cut."""
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_watch, args=(descriptor,), name="assay-lifeline", daemon=True).start()
    from assay.cli.main import main as run

    run(sys.argv[2:])


def _watch(descriptor: int) -> None:
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(KILL_AFTER_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
