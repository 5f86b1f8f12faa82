"""`assay completion`: scripts with which a shell completes commands, options and ids."""

import os
from typing import ClassVar, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
    split_arg_string,
)

from assay.cli.command_errors import CommandError

__all__ = ["completion", "shell_complete"]

SHELLS: Final = ("bash", "zsh", "fish", "powershell", "elvish")
PROGRAM_NAME: Final = "assay"
VARIABLE: Final = "_ASSAY_COMPLETE"
"""The environment variable with which the scripts request completions; click derives it from the program's name."""

_ELVISH = """\
use str

set edit:completion:arg-completer[%(prog_name)s] = {|@words|
  set-env %(complete_var)s elvish_complete
  set-env COMP_WORDS (to-json [$words])
  try {
    for line [(e:%(prog_name)s 2>/dev/null | from-lines)] {
      var kind value display = (str:split &max=3 "\\t" $line)
      if (eq $kind plain) {
        edit:complex-candidate $value &display=$display
      } else {
        edit:complete-filename $value
      }
    }
  } catch problem {
    nop $problem
  } finally {
    unset-env %(complete_var)s
    unset-env COMP_WORDS
  }
}
"""


class ElvishComplete(ShellComplete):
    """Completion for Elvish: the words are a JSON list, and each completion is a line with kind, value and label."""

    name: ClassVar[str] = "elvish"
    source_template: ClassVar[str] = _ELVISH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the incomplete word, and the incomplete word."""
        import json

        *args, incomplete = json.loads(os.environ["COMP_WORDS"])[1:] or [""]
        return args, incomplete

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the line of a completion."""
        display = f"{item.value} ({' '.join(item.help.split())})" if item.help else item.value
        return f"{item.type}\t{item.value}\t{display}"


class BashCompleteWithColons(BashComplete):
    """Completion for bash with the line as typed: bash splits words at colons, and ids may contain colons."""

    source_template: ClassVar[str] = BashComplete.source_template.replace(
        'COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD', 'COMP_WORDS="${COMP_LINE:0:COMP_POINT}"'
    ).replace(
        # Of a word with a colon, bash replaces only the part after the colon, which is $2.
        "COMPREPLY+=($value)",
        'local word="${COMP_LINE:0:COMP_POINT}"; word="${word##* }"; COMPREPLY+=("${value#"${word%%"$2"}"}")',
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the incomplete word, and the incomplete word."""
        line = os.environ["COMP_WORDS"]
        _, *words = split_arg_string(line) or [""]
        incomplete = words.pop() if words and not line[-1].isspace() else ""
        return words, incomplete


class FishCompleteWithCommas(FishComplete):
    """Completion for fish, split at the first comma only: ids and help texts contain commas, too."""

    source_template: ClassVar[str] = FishComplete.source_template.replace(
        'string split "," $completion', 'string split -m 1 "," $completion'
    )


add_completion_class(ElvishComplete)
add_completion_class(BashCompleteWithColons, "bash")
add_completion_class(FishCompleteWithCommas, "fish")


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS, case_sensitive=False), help=f"{', '.join(SHELLS)}.")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands in your shell.

    Save the script where your shell loads completions.

    \b
    Examples:
      assay completion bash > /etc/bash_completion.d/assay
      assay completion zsh > "${fpath[1]}/_assay"
      assay completion fish > ~/.config/fish/completions/assay.fish
      assay completion powershell >> $PROFILE
      assay completion elvish >> ~/.config/elvish/rc.elv
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise CommandError(f"no completion for {shell}")
    # Not the `source` method of bash, which runs bash to check its version: the script may be for another machine.
    script = ShellComplete.source(kind(context.find_root().command, {}, PROGRAM_NAME, VARIABLE))
    click.echo(script)
