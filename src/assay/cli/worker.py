"""`assay worker`: who does the work."""

from typing import Final

import click

from assay.cli.options import RemoteGroup, global_options
from assay.cli.render import Column
from assay.cli.session import Session, connected

WORKERS: Final = (
    Column("ID", "id"),
    Column("IDENTITY", "identity"),
    Column("QUEUE", "task_queue"),
    Column("ACTIVE", "active_tasks"),
    Column("LAST HEARTBEAT", "last_heartbeat", is_time=True),
    Column("HEALTHY", "healthy"),
    Column("ABANDONED THREADS", "abandoned_threads"),
)


@click.group(cls=RemoteGroup)
@global_options
def worker() -> None:
    """Look at the workers of a namespace.

    `assay run FILE` starts one.

    \b
    Example:
      assay worker list
    """


@worker.command("list")
@connected
def list_workers(session: Session) -> None:
    """List the workers that were heard of lately.

    \b
    Examples:
      assay worker list
      assay worker list --namespace staging --output json | jq -r .[].identity
    """
    session.printer.list(session.engine.get("workers").document, WORKERS)
