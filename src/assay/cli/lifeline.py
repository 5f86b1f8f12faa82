"""Run a command that ends with its parent process, even if the parent is killed with SIGKILL.

    python -m assay.cli.lifeline DESCRIPTOR COMMAND...

DESCRIPTOR is the reading end of a pipe that the parent holds open and never writes to. When the parent ends, for any
reason, the pipe is closed and the read returns.
"""

import os
import signal
import sys
import threading
from typing import Final

KILL_AFTER_SECONDS: Final = 15.0
"""Engines and workers stop within ten seconds after SIGTERM; a process that does not is killed."""


def main() -> None:
    """Run the command, and send it SIGTERM when the pipe is closed."""
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
