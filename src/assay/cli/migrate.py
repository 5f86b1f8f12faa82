"""`assay migrate`: the schema of a database, brought up to date by hand."""

import click

from assay.cli.arguments import backend_option
from assay.cli.options import verbose_of


@click.command(short_help="Bring the schema of a database up to date.")
@backend_option
@click.pass_context
def migrate(context: click.Context, backend: str | None) -> None:
    """Bring the schema of a database up to date.

    Engines do so when they start; this is for those who start them with --no-migrate. A SQLite file must not be in use,
    and a copy of it is kept beside it; a Postgres database may have engines that run. It is done by one program at a
    time, and wholly or not at all.

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
