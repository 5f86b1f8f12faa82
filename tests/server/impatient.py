"""An engine in the current folder whose patience with clients is short enough for a test."""

import sys

from assay.server.client_limits import ClientLimits
from assay.server.config import ServerConfig
from assay.server.serve import serve

SHORT_LIMITS = ClientLimits(
    head_seconds=1.0, body_seconds=1.0, body_pace=1_024, answer_seconds=1.0, silence_seconds=3.0, connections=260
)


def write_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(serve(ServerConfig(port=0, limits=SHORT_LIMITS), write_line))
