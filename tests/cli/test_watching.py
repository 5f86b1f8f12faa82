"""`assay workflow watch`: a line for each end, and the exit code of all of them."""

import json
import threading
from collections.abc import Callable

from tests.api.support import Worker, complete
from tests.cli.support import Cli


def test_the_ends_of_workflows_are_lines(cli: Cli, worker: Callable[..., Worker]):
    for name in ("one", "two"):
        cli("workflow", "start", "--type", "Order", "--id", name)
    hand = worker()
    timer = threading.Timer(0.3, lambda: [hand.turn("one", complete(5)), hand.turn("two", complete(6))])
    timer.start()
    result = cli("workflow", "watch", "one", "two", "--output", "json")
    timer.join()
    found = {line["workflow_id"]: line["value"] for line in map(json.loads, result.out.splitlines())}
    assert (result.code, found, result.err) == (0, {"one": 5, "two": 6}, "")


def test_an_end_without_a_result_is_the_exit_code(cli: Cli):
    cli("workflow", "start", "--type", "Order", "--id", "gone")
    cli("workflow", "terminate", "gone")
    result = cli("workflow", "watch", "gone", "never-there", "--output", "table")
    lines = sorted(result.out.splitlines())
    assert result.code == 1
    assert lines[0].startswith("gone: CANCELED: workflow terminated")
    assert lines[1].startswith("never-there: NOT_FOUND: ")
