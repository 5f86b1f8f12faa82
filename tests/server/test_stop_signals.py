"""A signal ends the engine's process in time, whatever its event loop is doing."""

import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("number", "seconds", "code"), [(signal.SIGTERM, 60, 70), (signal.SIGINT, 0, 0)])
def test_a_process_ends_after_a_signal_with_70_only_if_it_was_forced(number: int, seconds: float, code: int):
    command = [sys.executable, "-m", "tests.server.stopping_program", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdout is not None
        assert process.stdout.readline() == b"blocking\n"
        process.send_signal(number)
        assert process.wait(10) == code
