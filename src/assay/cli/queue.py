"""`assay queue`: the task queues of a namespace."""

from typing import Final

import click

from assay.cli.options import RemoteGroup, global_options
from assay.cli.render import Column
from assay.cli.session import CliSession, connected

QUEUES: Final = (
    Column("QUEUE", "queue"),
    Column("PENDING", "pending_activities"),
    Column("RUNNING", "running_activities"),
    Column("WORKERS", "workers"),
    Column("TASKS", "pending_workflow_tasks"),
)


@click.group(cls=RemoteGroup)
@global_options
def queue() -> None:
    """Show the task queues of a namespace.

    \b
    Example:
      assay queue stats
    """


@queue.command()
@connected
def stats(session: CliSession) -> None:
    """Show the number of activities, workers and waiting workflow tasks of each queue.

    \b
    Examples:
      assay queue stats
      assay queue stats --output json | jq '.[] | select(.workers == 0)'
    """
    session.printer.list(session.engine.get("queues").document, QUEUES)
