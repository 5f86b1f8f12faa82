"""An event loop that is blocked, in the block that takes signals: `python -m tests.server.stopping_program SECONDS`."""

import sys
import threading

from assay.server.stop_signals import StopSignals


def main(blocked_seconds: float) -> int:
    with StopSignals(forced_stop_seconds=1.0) as signals:
        received: list[int] = []
        signals.connect(received.append)
        sys.stdout.write("blocking\n")
        sys.stdout.flush()
        while not received:
            threading.Event().wait(0.01)
        threading.Event().wait(blocked_seconds)
        return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
