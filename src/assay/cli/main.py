"""The command `assay`. A subcommand imports what it needs when it runs, so that a plain call stays light."""

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from assay._version import __version__
from assay.cli.dev import dev
from assay.cli.run import run as run_worker
from assay.cli.serve import serve
from assay.core.errors import AssayError

FAILED: Final = 1
USAGE: Final = 64
INTERRUPTED: Final = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="assay", message="%(prog)s %(version)s")
def assay() -> None:
    """Durable workflows in ordinary Python.

    Exit codes: 0 success, 1 something was found or went wrong, 64 the command was called wrongly.
    """


assay.add_command(serve)
assay.add_command(run_worker)
assay.add_command(dev)


@assay.command()
@click.argument("url", metavar="URL")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, also on a terminal.")
def verify(url: str, as_json: bool) -> None:
    """Check a database against the contract of the engine.

    URL is a database: sqlite://app.db, a file name, or postgres://user@host/database. It is only read, and may be in
    use by a running engine. Each violation is one line: the number of the rule, the run, and a sentence; as JSON unless
    standard output is a terminal. The exit code is 1 if there is any.
    """
    import asyncio

    found = asyncio.run(_verify(url, as_json or not sys.stdout.isatty()))
    click.echo(f"{found} violations" if found else "no violations", err=True)
    if found:
        raise click.exceptions.Exit(FAILED)


async def _verify(url: str, as_json: bool) -> int:
    import json

    from assay.server.logs import one_line
    from assay.server.verification import violations

    found = 0
    async for violation in violations(url):
        found += 1
        if as_json:
            fields = {"invariant": violation.invariant, "run_id": violation.run_id, "message": violation.message}
            click.echo(json.dumps(fields))
        else:
            click.echo(one_line(f"{violation.invariant:<4} {violation.run_id}  {violation.message}"))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: run, and leave with an exit code that scripts can rely on."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """The exit code of a call; errors are sentences on standard error, never tracebacks."""
    try:
        code = assay.main(list(arguments), prog_name="assay", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        error.show()
        return FAILED
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except AssayError as error:
        return _failed(error)
    except BrokenPipeError:
        # Whoever read the output has gone; without this Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code if isinstance(code, int) else 0


def _failed(error: AssayError) -> int:
    from assay.server.logs import one_line, redacted

    click.echo(f"assay: {one_line(redacted(str(error)))}", err=True)
    return FAILED


if __name__ == "__main__":
    main()
