"""Health reports of a worker over their own connection, because the worker's event loop may be blocked."""

from typing import Final

import msgspec

from assay.core.model.errors import Unavailable
from assay.sdk.client.http.blocking_connection import BlockingConnection
from assay.sdk.client.http.http1 import Endpoint

REPORT_SECONDS: Final = 2.0
"""Seconds for each operation on the connection; the watchdog waits meanwhile."""


def report_health(endpoint: Endpoint, worker: str, *, healthy: bool, abandoned_threads: int) -> None:
    """Report the health of a worker to an engine, and block until the engine has responded.

    Raises:
        Unavailable: The engine refused the report.
        OSError: The engine cannot be reached.
    """
    report = {"worker_id": worker, "healthy": healthy, "abandoned_threads": abandoned_threads}
    connection = BlockingConnection(endpoint, REPORT_SECONDS)
    try:
        reply = connection.request("POST", "/workers/heartbeat", msgspec.json.encode(report))
    finally:
        connection.close()
    if reply.status >= 300:
        raise Unavailable(f"the engine answered {reply.status}", code="report_refused")
