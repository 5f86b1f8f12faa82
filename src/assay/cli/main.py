"""The command `assay`. A subcommand is imported when it is called, so that every call starts fast."""

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
    """A subcommand: its module, and its line in the help of `assay`."""

    module: str
    summary: str


SECTIONS: Final = {
    "Engine and workers": {
        "serve": Subcommand("assay.cli.serve", "Run the engine: REST API, events and worker protocol."),
        "run": Subcommand("assay.cli.run", "Run a worker for the workflows and activities of a program."),
        "dev": Subcommand("assay.cli.dev", "Run an engine and a worker, and reload the worker when a file is saved."),
    },
    "A running engine": {
        "workflow": Subcommand("assay.cli.workflow", "Start, watch and control workflows."),
        "schedule": Subcommand("assay.cli.schedule", "Start workflows at certain times."),
        "namespace": Subcommand("assay.cli.namespace", "Create, list and delete namespaces."),
        "worker": Subcommand("assay.cli.worker", "List the workers of a namespace."),
        "queue": Subcommand("assay.cli.queue", "Show the task queues of a namespace."),
        "audit": Subcommand("assay.cli.audit", "Show who changed what."),
        "api-key": Subcommand("assay.cli.api_key", "Create, list, rotate and revoke API keys."),
    },
    "Tools": {
        "replay": Subcommand("assay.cli.replay", "Check that workflow code matches recorded histories."),
        "migrate": Subcommand("assay.cli.migrate", "Update the schema of a database."),
        "verify": Subcommand("assay.cli.verify", "Check the data of a database for errors."),
        "completion": Subcommand("assay.cli.completion", "Print a script that completes commands in your shell."),
    },
}
COMMANDS: Final = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
"""All subcommands by name. In its module, a command has the same name."""
ALIASES: Final = {"api-keys": "api-key"}
COMPLETING: Final = "_ASSAY_COMPLETE"
"""The environment variable with which the scripts of `assay completion` request completions."""
REMOTE: Final = (*SECTIONS["A running engine"], "replay")


class AssayGroup(click.Group):
    """The group of all subcommands; `assay worker.py` is short for `assay run worker.py`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name].module), cmd_name.replace("-", "_"))
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a line."""
        return super().resolve_command(ctx, ["run", *args] if args[0].endswith(".py") else args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing their modules."""
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

    Commands for a running engine use the URL of --engine-url, ASSAY_ENGINE_URL or a config file. See
    `assay workflow --help`.

    Exit codes: 0 success, 1 failure or a check found problems, 2 the time limit of a wait was reached, 64 wrong usage
    of the command.
    """
    if flags_of(context) and context.invoked_subcommand not in REMOTE:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in flags_of(context))
        raise click.UsageError(
            f"before the command, {names} is only for {', '.join(REMOTE)}; write it after the command", context
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and exit with a stable exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; errors are sentences on standard error, not tracebacks."""
    code = 0
    try:
        _prepare()
        code = _called(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)  # the reader of the output has closed it, such as `head`
    except OSError as error:
        silence(sys.stdout)
        return _show(CommandError(f"{error.filename or 'the answer cannot be written'}: {error.strerror or error}"))
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _called(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code. Not click's `main`, which treats a closed output as a failure."""
    if COMPLETING in os.environ:
        return _completed(os.environ[COMPLETING])
    try:
        with assay.make_context("assay", list(arguments)) as context:
            code = assay.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        return _helped(error)
    except click.ClickException as error:
        return _show(error)
    except click.Abort:
        return INTERRUPTED
    except AssayError as error:
        return _failed(error)
    return code if isinstance(code, int) else 0


def _completed(instruction: str) -> int:
    from assay.cli.completion import shell_complete

    return shell_complete(assay, {}, "assay", COMPLETING, instruction)


def _show(error: click.ClickException) -> int:
    """Print an error and return its exit code, also if standard error is closed."""
    try:
        error.show()
    except OSError:
        silence(sys.stderr)
    return USAGE if isinstance(error, click.UsageError) else FAILED


def _prepare() -> None:
    """Set up the output: UTF-8 for files and pipes, the terminal's own encoding, the null device if it is closed."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # as long as the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")


def _helped(error: click.exceptions.NoArgsIsHelpError) -> int:
    """Print the help for `assay` alone; a group without a command is a usage error."""
    if error.ctx.parent is not None:
        return _show(error)
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
