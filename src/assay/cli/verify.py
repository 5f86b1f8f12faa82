"""`assay verify`: check the invariants of the engine in a database."""

import sys

import click

from assay.cli.command_errors import FAILED, print_finding


@click.command()
@click.argument("url", metavar="URL")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line, also on a terminal.")
def verify(url: str, as_json: bool) -> None:
    """Check the data of a database for errors.

    URL is a database: sqlite://app.db, a file name, or postgres://user@host/database. The database is only read, and an
    engine may use it at the same time. The check covers the invariants of the engine. Each violation is a line with the
    number of the invariant, the run, and a sentence. Without a terminal, the lines are JSON. The exit code is 1 if a
    violation is found.

    \b
    Examples:
      assay verify assay-workflow.db
      assay verify postgres://assay@db.example.com/assay --json
    """
    import asyncio

    found = asyncio.run(_verify(url, as_json or not sys.stdout.isatty()))
    click.echo(f"{found} violations" if found else "no violations", err=True)
    if found:
        raise click.exceptions.Exit(FAILED)


async def _verify(url: str, as_json: bool) -> int:
    import json

    from assay.server.verification import violations

    found = 0
    async for violation in violations(url):
        found += 1
        if as_json:
            fields = {"invariant": violation.invariant, "run_id": violation.run_id, "message": violation.message}
            print_finding(json.dumps(fields))
        else:
            print_finding(f"{violation.invariant:<4} {violation.run_id}  {violation.message}")
    return found
