"""`assay namespace`: the namespaces of an engine."""

from typing import Final

import click

from assay.cli.arguments import NAME
from assay.cli.options import RemoteGroup, global_options
from assay.cli.render import Column
from assay.cli.session import CliSession, connected
from assay.cli.suggestions import namespace_names

NAMESPACES: Final = (Column("NAME", "name"), Column("CREATED", "created_at", is_time=True))

_name = click.argument("name", metavar="NAME", type=NAME, shell_complete=namespace_names, help="Name of the namespace.")


@click.group(cls=RemoteGroup)
@global_options
def namespace() -> None:
    """Create, list and delete namespaces.

    A namespace separates workflows, schedules and workers from other namespaces.

    \b
    Examples:
      assay namespace create staging
      assay workflow list --namespace staging
    """


@namespace.command()
@click.argument("name", metavar="NAME", type=NAME, help="Name of the namespace.")
@connected
def create(session: CliSession, name: str) -> None:
    """Create a namespace.

    A namespace is also created when the first workflow is started in it.

    \b
    Example:
      assay namespace create staging
    """
    session.engine.post("namespaces", body={"name": name})
    session.printer.action(f"namespace '{name}' created")


@namespace.command("list")
@connected
def list_namespaces(session: CliSession) -> None:
    """List all namespaces, by name.

    \b
    Example:
      assay namespace list
    """
    session.printer.list(session.engine.get("namespaces").document, NAMESPACES)


@namespace.command()
@_name
@connected
def describe(session: CliSession, name: str) -> None:
    """Count the workflows, schedules and workers of a namespace.

    \b
    Example:
      assay namespace describe main
    """
    session.printer.record(session.engine.get("namespaces", name).document)


@namespace.command()
@_name
@connected
def delete(session: CliSession, name: str) -> None:
    """Delete a namespace.

    The namespace must not have open workflows or schedules.

    \b
    Example:
      assay namespace delete staging
    """
    session.engine.delete("namespaces", name)
    session.printer.action(f"namespace '{name}' deleted")
