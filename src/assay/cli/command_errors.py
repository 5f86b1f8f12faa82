"""What ends a call early: a sentence on standard error, and an exit code that scripts can rely on."""

import os
import sys
from typing import IO, Any, Final, TextIO

import click

FAILED: Final = 1
TIMED_OUT: Final = 2
"""Of a wait alone."""
USAGE: Final = 64
INTERRUPTED: Final = 130

KEY_WARNING: Final = (
    "warning: --api-key can be read by everybody who lists the processes of this machine;"
    " prefer ASSAY_API_KEY_FILE, or api_key_file in the config file"
)


class CommandError(click.ClickException):
    """`error: <sentence>`, exit code 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Tell it."""
        print_error(f"error: {self.format_message()}")


def print_error(line: str) -> None:
    """One line on standard error, whatever somebody else's words in it are; nothing can move the cursor."""
    from assay.server.logs import one_line

    click.echo(one_line(line), err=True)


def print_finding(line: str) -> None:
    """One line of what a check has found, on standard output; it goes on, and its exit code counts, if nobody reads."""
    from assay.server.logs import one_line

    try:
        click.echo(one_line(line))
    except BrokenPipeError:
        silence(sys.stdout)


def silence(stream: TextIO) -> None:
    """Write no more to a stream that failed: Python would report the failure once more when it flushes at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_debug(line: str) -> None:
    """What `-v` asked for, on standard error."""
    from assay.server.logs import redacted

    print_error(f"debug: {redacted(line)}")


def warn_about_key(key: str | None) -> None:
    """Tell whoever names a key on the command line, at a terminal, that others can see it (R47)."""
    if key and sys.stderr.isatty():
        print_error(KEY_WARNING)
