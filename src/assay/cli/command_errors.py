"""Errors of commands: a sentence on standard error, and a stable exit code."""

import os
import sys
from typing import IO, Any, Final, TextIO

import click

FAILED: Final = 1
TIMED_OUT: Final = 2
"""Only for commands that wait."""
USAGE: Final = 64
INTERRUPTED: Final = 130

KEY_WARNING: Final = (
    "warning: --api-key can be read by everybody who lists the processes of this machine;"
    " use ASSAY_API_KEY_FILE, or api_key_file in the config file"
)


class CommandError(click.ClickException):
    """An error that is shown as `error: <sentence>`, with exit code 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error."""
        print_error(f"error: {self.format_message()}")


def print_error(line: str) -> None:
    """Print a line on standard error, with control characters escaped."""
    from assay.server.logs import one_line

    click.echo(one_line(line), err=True)


def print_finding(line: str) -> None:
    """Print a line of a check's result on standard output; if the output is closed, the check continues."""
    from assay.server.logs import one_line

    try:
        click.echo(one_line(line))
    except BrokenPipeError:
        silence(sys.stdout)


def silence(stream: TextIO) -> None:
    """Redirect a broken stream to the null device, so that Python does not report the failure again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_debug(line: str) -> None:
    """Print a debug line on standard error, with secrets removed."""
    from assay.server.logs import redacted

    print_error(f"debug: {redacted(line)}")


def warn_about_key(key: str | None) -> None:
    """On a terminal, warn that other users can see an API key on the command line."""
    if key and sys.stderr.isatty():
        print_error(KEY_WARNING)
