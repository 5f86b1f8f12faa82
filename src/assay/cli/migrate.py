"""`assay migrate`: update the schema of a database without starting an engine."""

import click

from assay.cli.arguments import backend_option
from assay.cli.options import verbose_of


@click.command(short_help="Update the schema of a database.")
@backend_option
@click.pass_context
def migrate(context: click.Context, backend: str | None) -> None:
    """Update the schema of a database.

    An engine updates the schema when it starts, unless it is started with --no-migrate. Use this command before you
    start such engines. A SQLite file must not be in use; a copy of the old file is kept beside it. A Postgres database
    may be in use by engines. The update is complete or has no effect, and only one program updates at a time.

    \b
    Examples:
      assay migrate --backend sqlite:///var/lib/assay/w.db
      DATABASE_URL=postgres://u:p@db/assay assay migrate
    """
    import asyncio

    from assay.server import logs
    from assay.server.config import DEFAULT_DATABASE
    from assay.server.migration import migrate as run

    logs.install("DEBUG" if verbose_of(context) else "WARNING")
    done = asyncio.run(run(backend or DEFAULT_DATABASE))
    if done.steps:
        steps = ", ".join(map(str, done.steps))
        click.echo(f"{done.place} now has schema {done.version}; missing were {steps}")
    else:
        click.echo(f"{done.place} has schema {done.version}; nothing was missing")
