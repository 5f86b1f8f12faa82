"""`assay api-key`: the keys of programs and people that call the engine."""

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
    """Make, list, rotate and revoke API keys.

    \b
    Examples:
      assay api-key create --label ci --role worker --in-namespace shop
      assay api-key list
      assay api-key rotate assay_1a2b3c4d --overlap 3600
    """


@api_key.command()
@click.option("--label", metavar="TEXT", help="A name for people.")
@click.option("--role", type=click.Choice(ROLES), default="operator", show_default=True, help="What the key may do.")
@click.option("--in-namespace", "namespaces", multiple=True, metavar="NAME", help="Where; every namespace of yours.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Task queues of a worker; all without it.")
@click.option("--expires-at", type=float, metavar="SECONDS", help="When it ends, in seconds since the epoch.")
@click.option("--idempotent", is_flag=True, help="Make no second key of the label; show the record of the first.")
@connected
def create(session: CliSession, /, **fields: Any) -> None:
    """Make a key; it is shown once, here.

    \b
    Examples:
      assay api-key create --label ci --role worker --in-namespace shop --queue default
      assay api-key create --label backup --role reader --idempotent
    """
    body = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items() if value}
    session.printer.record(session.engine.post("api-keys", body=body).document)


@api_key.command("list")
@click.option("--revoked", is_flag=True, help="Show revoked keys, too.")
@connected
def list_keys(session: CliSession, revoked: bool) -> None:
    """List keys, newest first; the keys themselves are stored nowhere.

    \b
    Example:
      assay api-key list
    """
    query = {"revoked": "true"} if revoked else {}
    session.printer.list(session.engine.get("api-keys", **query).document, KEYS)


@api_key.command()
@_prefix
@click.option("--overlap", type=float, metavar="SECONDS", help="How long the old key is still accepted; a day.")
@connected
def rotate(session: CliSession, prefix: str, overlap: float | None) -> None:
    """Make a successor of a key with the same label, role and namespaces.

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
    """Revoke a key: every engine refuses it within seconds.

    \b
    Example:
      assay api-key revoke assay_1a2b3c4d
    """
    session.engine.delete("api-keys", prefix)
    session.printer.action(f"key {prefix} revoked")
