"""`assay serve`: the engine in one terminal."""

import sys

import click

from assay.cli.arguments import backend_option
from assay.cli.options import verbose_of, verbose_option


@click.command(short_help="Run the engine: REST API, events and worker protocol.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65_535), help="0 picks a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@backend_option
@click.option("--no-auth", is_flag=True, help="Let everybody who can reach the engine do everything.")
@click.option("--read-only", is_flag=True, help="Show a SQLite file that a program may be using; refuse all changes.")
@click.option("--no-migrate", is_flag=True, help="Leave the database's schema to `assay migrate`.")
@click.option("--allowed-host", multiple=True, metavar="NAME", help="A further name to be called by; `*` for any.")
@verbose_option
@click.pass_context
def serve(
    context: click.Context,
    port: int,
    host: str,
    backend: str | None,
    no_auth: bool,
    read_only: bool,
    no_migrate: bool,
    allowed_host: tuple[str, ...],
) -> None:
    """Run the engine until SIGTERM or Ctrl-C.

    \b
    Examples:
      assay serve                                        a SQLite file here, port 8080, this machine only
      assay serve --port 8085 --backend sqlite:///var/lib/assay/w.db
      DATABASE_URL=postgres://u:p@db/assay assay serve   several engines may share one Postgres
      assay serve --read-only --backend sqlite://app.db  look into a program that embeds its engine

    Exit codes: 0 stopped, 1 could not start, 64 called wrongly, 70 stopping took too long, 74 the storage failed.
    """
    from assay.server import logs
    from assay.server.config import DEFAULT_DATABASE, ServerConfig, cache_bytes, events_ttl, task_lease
    from assay.server.serve import serve as run

    config = ServerConfig(
        database=backend or DEFAULT_DATABASE,
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
    raise click.exceptions.Exit(run(config, _say))


def _say(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()
