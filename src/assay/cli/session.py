"""The session of a command for a running engine: its settings, its client and its printer."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import click

from assay.cli.client import REQUEST_TIMEOUT_SECONDS, RemoteEngine
from assay.cli.command_errors import print_debug, print_error, warn_about_key
from assay.cli.options import flags_of, global_options, verbose_of
from assay.cli.render import Printer
from assay.cli.settings import CliSettings, names_file, of_this_process

P = ParamSpec("P")
R = TypeVar("R")


class CliSession:
    """The client and the printer of a command; `context` is the command's name, for error messages."""

    def __init__(
        self,
        settings: CliSettings,
        context: str,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
        *,
        verbose: bool = False,
        warn: Callable[[str], None] = print_error,
        renew: Callable[[], str | None] | None = None,
    ) -> None:
        self.namespace = settings.namespace
        note = print_debug if verbose else None
        if names_file(settings.engine_url):
            from assay.cli.file_engine import FileEngine

            self.engine: RemoteEngine = FileEngine(settings.engine_url, settings.namespace, context, warn, note=note)
        else:
            self.engine = RemoteEngine(
                settings.engine_url, settings.api_key, settings.namespace, context, timeout, note=note, renew=renew
            )
        self.printer = Printer(settings.output)


def session_of(
    context: click.Context, timeout: float = REQUEST_TIMEOUT_SECONDS, warn: Callable[[str], None] = print_error
) -> CliSession:
    """Return the session of the current command."""
    flags, terminal = flags_of(context), sys.stdout.isatty()
    session = CliSession(
        of_this_process(flags, terminal=terminal),
        context.command_path.partition(" ")[2],
        timeout,
        verbose=verbose_of(context),
        warn=warn,
        renew=lambda: of_this_process(flags, terminal=terminal).api_key,
    )
    context.call_on_close(session.engine.close)
    return session


def connected(command: Callable[Concatenate[CliSession, P], R]) -> Callable[P, R]:
    """Add the global options to a command, and pass its session as the first argument."""

    @wraps(command)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        context = click.get_current_context()
        warn_about_key(flags_of(context).get("api_key"))
        return command(session_of(context), *args, **kwargs)

    return global_options(call)
