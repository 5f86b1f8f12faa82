"""`assay api-key`: create, list, rotate and revoke API keys."""

from typing import Any, Final

import click

from assay.cli.options import RemoteGroup, global_options
from assay.cli.render import Column
from assay.cli.session import CliSession, connected

KEYS: Final = (
    Column("PREFIX", "prefix"),
    Column("LABEL", "label"),
    Column("ROLE", "role"),
    Column("NAMESPACES", "namespaces"),
    Column("CREATED", "created_at", is_time=True),
    Column("EXPIRES", "expires_at", is_time=True),
    Column("LAST USED", "last_used_at", is_time=True),
)
ROLES: Final = ("reader", "worker", "operator", "admin")

_prefix = click.argument("prefix", metavar="PREFIX", help="The beginning of the key, as `assay api-key list` shows it.")


@click.group(cls=RemoteGroup, name="api-key")
@global_options
def api_key() -> None:
    """Create, list, rotate and revoke API keys.

    \b
    Examples:
      assay api-key create --label ci --role worker --in-namespace shop
      assay api-key list
      assay api-key rotate assay_1a2b3c4d --overlap 3600
    """


@api_key.command()
@click.option("--label", metavar="TEXT", help="A name for the key.")
@click.option("--role", type=click.Choice(ROLES), default="operator", show_default=True, help="The role of the key.")
@click.option(
    "--in-namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Namespace of the key; may be repeated.  [default: all of your namespaces]",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    help="Task queue that a worker may serve; may be repeated.  [default: all queues]",
)
@click.option("--expires-at", type=float, metavar="SECONDS", help="Expiry time, in seconds since the epoch.")
@click.option("--idempotent", is_flag=True, help="If a key with this label exists, show it and create no new key.")
@connected
def create(session: CliSession, /, **fields: Any) -> None:
    """Create a key.

    The text of the key is shown only now. Store it in a safe place.

    \b
    Examples:
      assay api-key create --label ci --role worker --in-namespace shop --queue default
      assay api-key create --label backup --role reader --idempotent
    """
    body = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items() if value}
    session.printer.record(session.engine.post("api-keys", body=body).document)


@api_key.command("list")
@click.option("--revoked", is_flag=True, help="Include revoked keys.")
@connected
def list_keys(session: CliSession, revoked: bool) -> None:
    """List keys, newest first.

    The list does not contain the texts of the keys: the engine does not store them.

    \b
    Example:
      assay api-key list
    """
    query = {"revoked": "true"} if revoked else {}
    session.printer.list(session.engine.get("api-keys", **query).document, KEYS)


@api_key.command()
@_prefix
@click.option("--overlap", type=float, metavar="SECONDS", help="Accept the old key for this time.  [default: 1 day]")
@connected
def rotate(session: CliSession, prefix: str, overlap: float | None) -> None:
    """Create a new key with the label, role and namespaces of an old key.

    \b
    Example:
      assay api-key rotate assay_1a2b3c4d --overlap 0
    """
    body = {} if overlap is None else {"overlap_secs": overlap}
    session.printer.record(session.engine.post("api-keys", prefix, "rotate", body=body).document)


@api_key.command()
@_prefix
@connected
def revoke(session: CliSession, prefix: str) -> None:
    """Revoke a key. All engines refuse it within seconds.

    \b
    Example:
      assay api-key revoke assay_1a2b3c4d
    """
    session.engine.delete("api-keys", prefix)
    session.printer.action(f"key {prefix} revoked")
