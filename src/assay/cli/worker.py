"""`assay worker`: the workers of a namespace."""

from typing import Final

import click

from assay.cli.options import RemoteGroup, global_options
from assay.cli.render import Column, Record
from assay.cli.session import CliSession, connected
from assay.cli.times import now

LOST_SECONDS: Final = 30.0
"""A worker sends heartbeats every few seconds, and engines that share a database store them every 15 seconds."""


def state_of(worker: Record) -> str:
    """Return `alive`, `unhealthy` if the worker reports a problem, or `lost` if its last heartbeat is too old."""
    last_heartbeat = worker.get("last_heartbeat")
    if isinstance(last_heartbeat, int | float) and now() - last_heartbeat > LOST_SECONDS:
        return "lost"
    return "unhealthy" if worker.get("healthy") is False else "alive"


WORKERS: Final = (
    Column("ID", "id"),
    Column("IDENTITY", "identity"),
    Column("QUEUE", "task_queue"),
    Column("ACTIVE", "active_tasks"),
    Column("LAST HEARTBEAT", "last_heartbeat", is_time=True),
    Column("HEALTHY", "healthy"),
    Column("ABANDONED THREADS", "abandoned_threads"),
    Column("STATE", "", value=state_of),
)


@click.group(cls=RemoteGroup)
@global_options
def worker() -> None:
    """List the workers of a namespace.

    `assay run FILE` starts a worker.

    \b
    Example:
      assay worker list
    """


@worker.command("list")
@connected
def list_workers(session: CliSession) -> None:
    """List the workers of the last 90 seconds.

    STATE is `lost` for a worker without a heartbeat in the last 30 seconds.

    \b
    Examples:
      assay worker list
      assay worker list --namespace staging --output json | jq -r .[].identity
    """
    session.printer.list(session.engine.get("workers").document, WORKERS)
