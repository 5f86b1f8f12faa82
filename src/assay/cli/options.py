"""The global options of all commands for a running engine; they may stand before or after the command."""

import itertools
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from assay.cli.settings import FORMATS

FLAGS: Final = "assay.flags"
"""The key of the given options in `Context.meta`, which nested contexts share."""

VERBOSE: Final = "assay.verbose"

NEGATIVE: Final = re.compile(r"-\d")

F = TypeVar("F", bound=Callable[..., Any])


class GlobalOption(click.Option):
    """An option that may stand before and after a command; the innermost value counts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, expose_value=False, callback=_remember)


def _remember(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None and parameter.name is not None:
        context.meta.setdefault(FLAGS, {})[parameter.name] = value


def flags_of(context: click.Context) -> dict[str, str]:
    """Return the given global options by name."""
    found: dict[str, str] = context.meta.get(FLAGS, {})
    return found


def verbose_option(command: F) -> F:
    """Add `-v` to a command or a group."""
    details = {"is_flag": True, "expose_value": False, "callback": _remember_verbose, "help": "Show debug logs."}
    return click.option("-v", "--verbose", cls=VerboseOption, **details)(command)


class VerboseOption(click.Option):
    """The option `-v`, at any position."""


def _remember_verbose(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    context.meta[VERBOSE] = value or verbose_of(context)


def verbose_of(context: click.Context) -> bool:
    """Return whether `-v` was given."""
    return bool(context.meta.get(VERBOSE))


def _formats(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(incomplete.lower())]


def _namespaces(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from assay.cli.suggestions import namespace_names

    return namespace_names(context, parameter, incomplete)


def global_options(command: F, *, hidden: bool = False, without: str = "") -> F:
    """Add the five global options, except for `without`, and `-v` to a command or a group."""
    command = verbose_option(command)
    for declaration, details in reversed(_OPTIONS):
        if declaration == without:
            continue
        command = click.option(declaration, cls=GlobalOption, hidden=hidden, **details)(command)
    return command


_OPTIONS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (
        "--engine-url",
        {"metavar": "URL", "help": "URL of the engine.  [env: ASSAY_ENGINE_URL; default: http://127.0.0.1:8080]"},
    ),
    (
        "--api-key",
        {"metavar": "KEY", "help": "API key or JWT.  [env: ASSAY_API_KEY, or ASSAY_API_KEY_FILE for a file]"},
    ),
    (
        "--namespace",
        {
            "metavar": "NAME",
            "shell_complete": _namespaces,
            "help": "Namespace.  [env: ASSAY_NAMESPACE; default: main]",
        },
    ),
    (
        "--output",
        {
            "metavar": "FORMAT",
            "shell_complete": _formats,
            "help": "Output: table, json, jsonl or yaml.  [env: ASSAY_OUTPUT; default: table, or json in a pipe]",
        },
    ),
    (
        "--config",
        {
            "metavar": "FILE",
            "type": click.Path(),
            "help": "Config file.  [env: ASSAY_CONFIG_FILE; default: ~/.config/assay/config.yaml]",
        },
    ),
)


# help


class RemoteCommand(click.Command):
    """A command for a running engine; its help lists its own options before the global options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the line; treat negative numbers as values, such as payloads, and not as options."""
        return super().parse_args(ctx, _values_last(self, args) if any(map(NEGATIVE.match, args)) else args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the two lists of options."""
        _write_options(self, ctx, formatter)


class RemoteGroup(click.Group):
    """A group of commands for a running engine."""

    command_class = RemoteCommand

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of definition."""
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands before the options."""
        self.format_commands(ctx, formatter)
        _write_options(self, ctx, formatter)


def _values_last(command: click.Command, args: list[str]) -> list[str]:
    """Return the words of a line with options first, then `--` and the values."""
    with_value = {name for option in command.params if _takes_value(option) for name in option.opts}
    options: list[str] = []
    values: list[str] = []
    rest = iter(args)
    for word in rest:
        if word == "--":
            values += rest
        elif len(word) > 1 and word.startswith("-") and not NEGATIVE.match(word):
            options += [word, *itertools.islice(rest, word in with_value)]
        else:
            values.append(word)
    return [*options, "--", *values]


def _takes_value(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not parameter.is_flag


def _write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    own: list[tuple[str, str]] = []
    shared: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        row = parameter.get_help_record(ctx)
        if row is not None and isinstance(parameter, click.Option):
            (shared if isinstance(parameter, GlobalOption | VerboseOption) else own).append(row)
    for title, rows in (("Options", own), ("Global options, before or after the command", shared)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
