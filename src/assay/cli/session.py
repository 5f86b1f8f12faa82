"""The five options that every command about a running engine takes, anywhere in the line, and what is made of them."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import click
from click.shell_completion import CompletionItem

from assay.cli.client import TIMEOUT, RemoteEngine
from assay.cli.render import Printer
from assay.cli.settings import FORMATS, Settings, of_this_process
from assay.cli.trouble import complain

FLAGS: Final = "assay.flags"
"""Where the flags are kept while the line is read; contexts inside each other share it."""
KEY_WARNING: Final = (
    "warning: --api-key can be read by everybody who lists the processes of this machine;"
    " prefer ASSAY_API_KEY_FILE, or api_key_file in the config file"
)

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class Session:
    """One call: its settings, the engine it talks to, and how it prints."""

    def __init__(self, settings: Settings, context: str, timeout: float = TIMEOUT) -> None:
        self.settings = settings
        self.engine = RemoteEngine(settings.engine_url, settings.api_key, settings.namespace, context, timeout)
        self.printer = Printer(settings.output)

    @property
    def namespace(self) -> str:
        """The namespace that the call is about."""
        return self.settings.namespace


def session_of(context: click.Context, timeout: float = TIMEOUT) -> Session:
    """The session of the command that is being run."""
    flags: dict[str, str] = context.meta.get(FLAGS, {})
    settings = of_this_process(flags, terminal=sys.stdout.isatty())
    return Session(settings, context.command_path.partition(" ")[2], timeout)


def connected(command: Callable[Concatenate[Session, P], R]) -> Callable[P, R]:
    """Take the five options, and hand the command its session."""

    @wraps(command)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        context = click.get_current_context()
        if context.meta.get(FLAGS, {}).get("api_key") and sys.stderr.isatty():
            complain(KEY_WARNING)
        return command(session_of(context), *args, **kwargs)

    return global_options(call)


# the options


class GlobalOption(click.Option):
    """An option that may stand at several places of a line; the innermost counts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, expose_value=False, callback=_remember)


def _remember(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None and parameter.name is not None:
        context.meta.setdefault(FLAGS, {})[parameter.name] = value


def _formats(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    return [CompletionItem(name) for name in FORMATS if name.startswith(incomplete.lower())]


def global_options(command: F) -> F:
    """Add the five options to a command or a group."""
    for declaration, details in reversed(_OPTIONS):
        command = click.option(declaration, cls=GlobalOption, **details)(command)
    return command


_OPTIONS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (
        "--engine-url",
        {"metavar": "URL", "help": "Where the engine is.  [env: ASSAY_ENGINE_URL; default: http://127.0.0.1:8080]"},
    ),
    (
        "--api-key",
        {"metavar": "KEY", "help": "API key or JWT.  [env: ASSAY_API_KEY, or ASSAY_API_KEY_FILE naming a file]"},
    ),
    (
        "--namespace",
        {"metavar": "NAME", "help": "Namespace to work in.  [env: ASSAY_NAMESPACE; default: main]"},
    ),
    (
        "--output",
        {
            "metavar": "FORMAT",
            "shell_complete": _formats,
            "help": "table, json, jsonl or yaml.  [env: ASSAY_OUTPUT; default: table on a terminal, else json]",
        },
    ),
    (
        "--config",
        {
            "metavar": "FILE",
            "type": click.Path(),
            "help": "Config file.  [env: ASSAY_CONFIG_FILE; default: ~/.config/assay/config.yaml, if there]",
        },
    ),
)


# help


class RemoteCommand(click.Command):
    """A command about a running engine: in its help, its own options stand before those of all."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The two lists of options."""
        write_options(self, ctx, formatter)


class RemoteGroup(click.Group):
    """A group of commands about a running engine."""

    command_class = RemoteCommand

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands first: they are what a reader looks for."""
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter)


def write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Own options, then global ones."""
    own: list[tuple[str, str]] = []
    shared: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        row = parameter.get_help_record(ctx)
        if row is not None:
            (shared if isinstance(parameter, GlobalOption) else own).append(row)
    for title, rows in (("Options", own), ("Global options, before or after the command", shared)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
