"""`assay` on a machine whose wall clock a test sets: the file CHAOS_CLOCK has the shift in seconds.

`python -m tests.chaos.served.stepping serve --port 8080 ...`
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

CLOCK = "CHAOS_CLOCK"


def shifted(read: Callable[[], float], unit: int) -> Callable[[], float]:
    """Return a clock like `read` that is off by what the file says."""
    path = Path(os.environ[CLOCK])

    def stepping() -> float:
        return read() + int(path.read_text() or 0) * unit if path.exists() else read()

    return stepping


if __name__ == "__main__":
    time.time = shifted(time.time, 1)  # noqa: TID251
    time.time_ns = shifted(time.time_ns, 1_000_000_000)  # type: ignore[assignment]  # noqa: TID251
    from assay.cli.main import main

    main()
