"""`assay serve`: run the engine."""

import sys
from typing import TYPE_CHECKING, Any

import click

from assay.cli.arguments import backend_option
from assay.cli.options import verbose_of, verbose_option

if TYPE_CHECKING:
    from assay.server.auth_config import AuthConfig


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
@click.option("--auth-api-key", is_flag=True, help="Require an API key of every caller.")
@click.option("--auth-issuer", metavar="URL", help="Accept tokens (JWT) of this issuer.")
@click.option("--auth-audience", metavar="AUD", help="Required audience of tokens.")
@click.option("--auth-jwks-url", metavar="URL", help="URL of the issuer's keys.  [default: by discovery]")
@click.option("--auth-header", metavar="NAME", help="A further header with a token.")
@click.option("--auth-roles-claim", metavar="NAME", help="Claim with roles; without it, every token is an admin.")
@click.option("--auth-namespaces-claim", metavar="NAME", help="Claim with namespaces.")
@click.option(
    "--auth-role",
    multiple=True,
    metavar="VALUE=ROLE[@NAMESPACE]",
    help="Role for a value of the roles claim; may be repeated.",
)
@click.option("--metrics-public", is_flag=True, help="Allow every caller to read /metrics.")
@click.option("--generate-api-key", is_flag=True, help="Print a new admin key, and exit without starting an engine.")
@click.option("--list-api-keys", is_flag=True, help="Print the API keys of the database, and exit.")
@click.option("--label", metavar="TEXT", help="Label of the key for --generate-api-key.")
@click.option(
    "--read-only", is_flag=True, help="Only read a SQLite file, which another program may use; refuse all changes."
)
@click.option("--no-migrate", is_flag=True, help="Do not update the schema of the database; see `assay migrate`.")
@click.option(
    "--allowed-host",
    multiple=True,
    metavar="NAME",
    help="A further host name under which callers reach the engine; `*` for any name.",
)
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
    allowed_host: tuple[str, ...],
    generate_api_key: bool,
    list_api_keys: bool,
    label: str | None,
    **auth: Any,
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

    Exit codes: 0 stopped, 1 could not start, 64 wrong usage of the command, 70 stopping took too long, 74 the storage
    failed.
    """
    from assay.server import logs
    from assay.server.config import DEFAULT_DATABASE, ServerConfig, cache_bytes, events_ttl, task_lease
    from assay.server.serve import serve as run

    database = backend or DEFAULT_DATABASE
    if generate_api_key or list_api_keys:
        logs.install("WARNING")
        return _print_keys(database, label, generate=generate_api_key)
    config = ServerConfig(
        database=database,
        auth=_auth_config(auth),
        host=host,
        port=port,
        no_auth=no_auth,
        migrate=not no_migrate,
        read_only=read_only,
        allowed_hosts=allowed_host,
        task_lease=task_lease(),
        events_ttl=events_ttl(),
        cache_bytes=cache_bytes(),
    ).checked()
    logs.install("DEBUG" if verbose_of(context) else "INFO")
    raise click.exceptions.Exit(run(config, _print))


def _auth_config(flags: dict[str, Any]) -> "AuthConfig":
    from assay.server.auth_config import AuthConfig

    return AuthConfig(
        api_key=flags["auth_api_key"],
        issuer=flags["auth_issuer"],
        audience=flags["auth_audience"],
        key_set_url=flags["auth_jwks_url"],
        header=flags["auth_header"],
        roles_claim=flags["auth_roles_claim"],
        namespaces_claim=flags["auth_namespaces_claim"],
        roles=flags["auth_role"],
        metrics_public=flags["metrics_public"],
    )


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
