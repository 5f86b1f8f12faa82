"""`assay audit`: who changed what, as the engine recorded it."""

from typing import Any, Final

import click

from assay.cli.options import RemoteGroup, flags_of, global_options
from assay.cli.render import Column
from assay.cli.session import CliSession, connected

ROWS: Final = (
    Column("AT", "at", is_time=True),
    Column("ACTOR", "actor"),
    Column("CREDENTIAL", "credential"),
    Column("ACTION", "action"),
    Column("NAMESPACE", "namespace"),
    Column("TARGET", "target"),
    Column("OUTCOME", "outcome"),
    Column("COUNT", "count"),
)


@click.group(cls=RemoteGroup)
@global_options
def audit() -> None:
    """Show who changed what.

    An engine with authentication records every change, and every refusal for lack of a role. Without authentication,
    `assay serve --audit` does so.

    \b
    Example:
      assay audit list --action cancelWorkflow
    """


@audit.command("list")
@click.option("--actor", metavar="NAME", help="Only rows of this caller: the label of a key, or a user.")
@click.option("--action", metavar="NAME", help="Only rows of this operation, such as cancelWorkflow.")
@click.option("--target", metavar="ID", help="Only rows about this id, name or prefix.")
@click.option("--outcome", type=click.Choice(("ok", "refused")), help="Only accepted or only refused requests.")
@click.option("--after", type=float, metavar="SECONDS", help="Only rows at or after this time, since the epoch.")
@click.option("--before", type=float, metavar="SECONDS", help="Only rows before this time, since the epoch.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="Most rows.")
@click.option("--cursor", metavar="CURSOR", help="Continue after the row with this id.")
@connected
def list_audit(session: CliSession, /, **filters: Any) -> None:
    """List changes and refusals, newest first: of all your namespaces, or of --namespace.

    \b
    Examples:
      assay audit list --limit 20
      assay audit list --actor ci --outcome refused
    """
    # Only a namespace on the command line is a filter: a default namespace would hide the rows of all others.
    query = {"namespace": flags_of(click.get_current_context()).get("namespace"), **filters}
    session.printer.list(session.engine.get("audit", **query).document, ROWS)
