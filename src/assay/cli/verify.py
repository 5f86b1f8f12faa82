"""`assay verify`: a database checked against the contract of the engine."""

import sys

import click

from assay.cli.command_errors import FAILED, print_finding


@click.command()
@click.argument("url", metavar="URL")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, also on a terminal.")
def verify(url: str, as_json: bool) -> None:
    """Check a database against the contract of the engine.

    URL is a database: sqlite://app.db, a file name, or postgres://user@host/database. It is only read, and may be in
    use by a running engine. Each violation is one line: the number of the rule, the run, and a sentence; as JSON unless
    standard output is a terminal. The exit code is 1 if there is any.

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
