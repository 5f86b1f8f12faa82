"""The command `assay`. Each subcommand is imported when it is called, so that a plain call stays light."""

import importlib
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Final, NamedTuple

import click

from assay._version import __version__
from assay.cli.command_errors import FAILED, INTERRUPTED, USAGE, CommandError, silence
from assay.cli.options import flags_of, global_options
from assay.core.model.errors import AssayError


class Subcommand(NamedTuple):
    """A subcommand: where it is, and what is said of it in the list."""

    module: str
    summary: str


SECTIONS: Final = {
    "Engine and workers": {
        "serve": Subcommand("assay.cli.serve", "Run the engine: REST API, events and worker protocol."),
        "run": Subcommand("assay.cli.run", "Serve the workflows and activities of a program."),
        "dev": Subcommand("assay.cli.dev", "An engine and a worker in one terminal, reloaded on save."),
    },
    "A running engine": {
        "workflow": Subcommand("assay.cli.workflow", "Start, watch and steer workflows."),
        "schedule": Subcommand("assay.cli.schedule", "Start workflows by the clock."),
        "namespace": Subcommand("assay.cli.namespace", "Keep workflows, schedules and workers apart."),
        "worker": Subcommand("assay.cli.worker", "Look at the workers of a namespace."),
        "queue": Subcommand("assay.cli.queue", "Look at the task queues of a namespace."),
        "api-key": Subcommand("assay.cli.api_key", "Make, list, rotate and revoke API keys."),
    },
    "Tools": {
        "replay": Subcommand("assay.cli.replay", "Ask whether code still follows recorded histories."),
        "migrate": Subcommand("assay.cli.migrate", "Bring the schema of a database up to date."),
        "verify": Subcommand("assay.cli.verify", "Check a database against the contract of the engine."),
        "completion": Subcommand("assay.cli.completion", "Print a script that completes commands in your shell."),
    },
}
COMMANDS: Final = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
"""In each module the command has the name it has here."""
ALIASES: Final = {"api-keys": "api-key"}
COMPLETING: Final = "_ASSAY_COMPLETE"
"""Set by the scripts of `assay completion` when they ask what may come next."""
REMOTE: Final = (*SECTIONS["A running engine"], "replay")


class AssayGroup(click.Group):
    """The commands of the table; `assay worker.py` is short for `assay run worker.py`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name].module), cmd_name.replace("-", "_"))
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of a line."""
        return super().resolve_command(ctx, ["run", *args] if args[0].endswith(".py") else args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of the help, from the table alone."""
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<10}", entry.summary) for name, entry in section.items()])


@click.group(cls=AssayGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="assay", message="%(prog)s %(version)s")
@lambda command: global_options(command, hidden=True)
@click.pass_context
def assay(context: click.Context) -> None:
    """Durable workflows in ordinary Python.

    \b
    In three terminals:
      assay serve
      assay run worker.py
      assay workflow start --type Report --input '{"day": "monday"}' --wait

    Commands about a running engine find it by --engine-url, ASSAY_ENGINE_URL or a config file; `assay workflow --help`
    tells more.

    Exit codes: 0 success, 1 something was found or went wrong, 2 a wait was too short, 64 the command was called
    wrongly.
    """
    if flags_of(context) and context.invoked_subcommand not in REMOTE:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in flags_of(context))
        raise click.UsageError(f"here {names} is for {', '.join(REMOTE)}; put it after the command", context)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: run, and leave with an exit code that scripts can rely on."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """The exit code of a call; errors are sentences on standard error, never tracebacks."""
    code = 0
    try:
        _prepare()
        code = _called(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)  # whoever read the output has enough
    except OSError as error:
        silence(sys.stdout)
        return _told(CommandError(f"{error.filename or 'the answer cannot be written'}: {error.strerror or error}"))
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _called(arguments: Sequence[str]) -> int:
    """Not click's own `main`, which takes a reader that has gone for a failure."""
    if COMPLETING in os.environ:
        return _completed(os.environ[COMPLETING])
    try:
        with assay.make_context("assay", list(arguments)) as context:
            code = assay.invoke(context)
    except click.exceptions.Exit as wish:
        return wish.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        return _helped(error)
    except click.ClickException as error:
        return _told(error)
    except click.Abort:
        return INTERRUPTED
    except AssayError as error:
        return _failed(error)
    return code if isinstance(code, int) else 0


def _completed(instruction: str) -> int:
    from assay.cli.completion import shell_complete

    return shell_complete(assay, {}, "assay", COMPLETING, instruction)


def _told(error: click.ClickException) -> int:
    """The exit code after an error, which counts also where nobody can hear of it."""
    try:
        error.show()
    except OSError:
        silence(sys.stderr)
    return USAGE if isinstance(error, click.UsageError) else FAILED


def _prepare() -> None:
    """Programs read UTF-8, whatever the locale; terminals get what they can show; who closed a stream gets nothing."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # as long as the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")


def _helped(error: click.exceptions.NoArgsIsHelpError) -> int:
    """`assay` alone asks for help; a group alone was called wrongly."""
    if error.ctx.parent is not None:
        return _told(error)
    click.echo(error.format_message())
    return FAILED


def _failed(error: AssayError) -> int:
    from assay.server.logs import one_line, redacted

    try:
        click.echo(f"assay: {one_line(redacted(str(error)))}", err=True)
    except OSError:
        silence(sys.stderr)
    return FAILED


if __name__ == "__main__":
    main()
