"""`assay serve`: run the engine."""

import sys
from typing import TYPE_CHECKING, Any

import click

from assay.cli.arguments import backend_option
from assay.cli.options import verbose_of, verbose_option
from assay.cli.serve_options import auth_config, auth_options, exposure_config, exposure_options
from assay.core.model.errors import Invalid

if TYPE_CHECKING:
    from assay.server.config import ServerConfig


@click.command(short_help="Run the engine: REST API, events and worker protocol.")
@click.option(
    "--port",
    default=8080,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="Port to listen on; 0 for a free port.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@backend_option
@click.option("--no-auth", is_flag=True, help="Allow every caller to do everything, without a credential.")
@auth_options
@exposure_options
@click.option("--generate-api-key", is_flag=True, help="Print a new admin key, and exit without starting an engine.")
@click.option("--list-api-keys", is_flag=True, help="Print the API keys of the database, and exit.")
@click.option("--label", metavar="TEXT", help="Label of the key for --generate-api-key.")
@click.option(
    "--read-only", is_flag=True, help="Only read a SQLite file, which another program may use; refuse all changes."
)
@click.option("--no-migrate", is_flag=True, help="Do not update the schema of the database; see `assay migrate`.")
@verbose_option
@click.pass_context
def serve(
    context: click.Context,
    /,
    port: int,
    host: str,
    backend: str | None,
    no_auth: bool,
    read_only: bool,
    no_migrate: bool,
    generate_api_key: bool,
    list_api_keys: bool,
    label: str | None,
    **flags: Any,
) -> None:
    """Run the engine until SIGTERM or Ctrl-C.

    \b
    Examples:
      assay serve                                        a SQLite file here, port 8080, this machine only
      assay serve --port 8085 --backend sqlite:///var/lib/assay/w.db
      DATABASE_URL=postgres://u:p@db/assay assay serve   several engines may share one Postgres
      assay serve --read-only --backend sqlite://app.db  read the file of a program that embeds its engine
      assay serve --generate-api-key                     create the first key, for --auth-api-key
      assay serve --host 0.0.0.0 --auth-api-key          for callers on other machines, with an API key
      assay serve --host 0.0.0.0 --auth-issuer https://id.example.com --auth-audience assay \\
        --auth-roles-claim realm_access.roles --tls-cert tls.crt --tls-key tls.key

    Exit codes: 0 stopped, 1 could not start, 64 wrong usage of the command, 70 stopping took too long, 74 the storage
    failed.
    """
    from assay.server import logs
    from assay.server.config import DEFAULT_DATABASE
    from assay.server.serve import serve as run

    if label is not None and not generate_api_key:
        raise click.UsageError("--label needs --generate-api-key", context)
    database = backend or DEFAULT_DATABASE
    if generate_api_key or list_api_keys:
        logs.install("WARNING")
        return _print_keys(database, label, generate=generate_api_key)
    chosen = {"host": host, "port": port, "no_auth": no_auth, "migrate": not no_migrate, "read_only": read_only}
    config = _config({"database": database, **chosen}, flags, context)
    logs.install("DEBUG" if verbose_of(context) else "INFO")
    raise click.exceptions.Exit(run(config, _print))


def _config(chosen: dict[str, Any], flags: dict[str, Any], context: click.Context) -> "ServerConfig":
    """Return the checked configuration; a flag that lacks another flag or cannot be parsed is a usage error."""
    from assay.server.config import (
        ServerConfig,
        audit_retention,
        cache_bytes,
        events_ttl,
        task_lease,
        white_label,
    )

    times: dict[str, Any] = {
        "task_lease": task_lease(),
        "events_ttl": events_ttl(),
        "cache_bytes": cache_bytes(),
        "audit_retention": audit_retention(),
    }
    try:
        found = ServerConfig(
            **chosen, **times, auth=auth_config(flags), exposure=exposure_config(flags), white_label=white_label()
        )
        return found.checked()
    except Invalid as error:
        raise click.UsageError(str(error), context) from None


def _print_keys(database: str, label: str | None, *, generate: bool) -> None:
    import asyncio

    from assay.server.key_commands import generate_key, list_keys

    if generate:
        click.echo("New admin key for all namespaces. It is shown only now:", err=True)
        click.echo(asyncio.run(generate_key(database, label)))
        return
    keys = asyncio.run(list_keys(database))
    for key in keys:
        click.echo(f"  {key.prefix} {key.label or ''}".rstrip())
    if not keys:
        click.echo("No API keys configured.")


def _print(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()
