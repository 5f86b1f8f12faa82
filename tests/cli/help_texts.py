"""All help of the command line as one text. `python -m tests.cli.help_texts` writes the golden file anew."""

from collections.abc import Iterator
from pathlib import Path

import click

from assay.cli.main import assay

GOLDEN = Path(__file__).with_name("help.txt")
WIDTH = 100


def help_texts() -> str:
    return "\n".join(_texts(assay, None, "assay"))


def _texts(command: click.Command, parent: click.Context | None, name: str) -> Iterator[str]:
    settings = {} if parent is None else {"parent": parent}
    context = click.Context(command, info_name=name, **settings, **command.context_settings, terminal_width=WIDTH)
    yield f"$ {context.command_path} --help\n{command.get_help(context)}\n"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from _texts(found, context, inner)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its path."""
    pending: list[tuple[str, click.Command]] = [("assay", assay)]
    while pending:
        path, command = pending.pop()
        yield path, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            inner = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
            pending += [(f"{path} {name}", found) for name, found in inner if found is not None]


if __name__ == "__main__":
    GOLDEN.write_text(help_texts(), encoding="utf-8")
