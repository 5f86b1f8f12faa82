import click
import pytest

from assay.cli.main import COMMANDS
from assay.cli.options import GlobalOption, VerboseOption
from tests.cli.help_texts import GOLDEN, commands, help_texts
from tests.cli.support import Cli

ALL = dict(commands())
REMOTE = [
    path
    for path in ALL
    if path.split()[1:2] and path.split()[1] in ("workflow", "schedule", "namespace", "worker", "queue")
]
FIVE = {"--engine-url", "--api-key", "--namespace", "--output", "--config"}


def test_the_help_is_what_was_agreed():
    """`python -m tests.cli.help_texts` takes over a change that was meant."""
    assert help_texts() == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ALL)
def test_help_teaches_with_an_example(path: str):
    text = ALL[path].help or ""
    assert "Example" in text or path == "assay"
    assert f"{path} " in text or path.count(" ") == 0 or f"{path}\n" in f"{text}\n"


@pytest.mark.parametrize("path", ALL)
def test_help_is_asked_for_in_two_ways(bare: Cli, path: str):
    for flag in ("-h", "--help"):
        result = bare(*path.split()[1:], flag)
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith(f"Usage: {path}")


@pytest.mark.parametrize("path", REMOTE)
def test_every_command_about_an_engine_takes_the_five(path: str):
    options = [option for option in ALL[path].params if isinstance(option, GlobalOption)]
    assert {option.opts[0] for option in options} == FIVE
    assert [option.opts for option in ALL[path].params if isinstance(option, VerboseOption)] == [["-v", "--verbose"]]


@pytest.mark.parametrize("path", ALL)
def test_every_option_says_what_it_is_for(path: str):
    options = [option for option in ALL[path].params if isinstance(option, click.Option)]
    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says(name: str):
    summary = COMMANDS[name].summary
    command = ALL[f"assay {name}"]
    assert summary.rstrip(".").split(" in your")[0].split(";")[0] in f"{command.short_help} {command.help}"


def test_a_file_is_run(bare: Cli):
    result = bare("no-such-file.py")
    assert result.code == 64
    assert result.err.startswith("Usage: assay run ")
