from collections.abc import Callable

from tests.api.support import Worker, activity
from tests.cli.support import Cli


def test_namespaces(cli: Cli, namespace: str):
    result = cli("namespace", "create", namespace, "--output", "table")
    assert (result.code, result.out) == (0, f"namespace '{namespace}' created\n")
    table = cli("namespace", "list", "--output", "table")
    assert table.rows[0] == ["NAME", "CREATED"]
    assert {"main", namespace} <= {row[0] for row in table.rows[1:]}
    assert cli("namespace", "create", namespace).code == 1
    assert cli("namespace", "delete", namespace).json == {"message": f"namespace '{namespace}' deleted", "ok": True}
    assert cli("namespace", "delete", namespace).code == 1
    assert cli("namespace", "delete", "main").code == 1


def test_what_a_namespace_holds(cli: Cli, namespace: str):
    cli("workflow", "start", "--type", "Order", "--id", "a")
    cli("workflow", "start", "--type", "Order", "--id", "b")
    cli("workflow", "terminate", "b")
    stats = cli("namespace", "describe", namespace).json
    assert (stats["namespace"], stats["total_workflows"], stats["pending"], stats["failed"]) == (namespace, 2, 1, 1)


def test_workers(cli: Cli, worker: Callable[..., Worker]):
    titles = "ID  IDENTITY  QUEUE  ACTIVE  LAST HEARTBEAT  HEALTHY  ABANDONED THREADS  STATE\n"
    assert cli("worker", "list", "--output", "table").out == titles
    hand = worker(queue="q")
    (row,) = cli("worker", "list", "--output", "table").rows[1:]
    assert row[:4] == [hand.id, "test", "q", "0"]
    assert row[4].endswith("Z")
    assert row[-1] == "alive"


def test_queues(cli: Cli, worker: Callable[..., Worker]):
    hand = worker()
    cli("workflow", "start", "--type", "Order", "--id", "o")
    hand.turn("o", activity(1), activity(2))
    assert hand.activity() is not None
    assert cli("queue", "stats", "--output", "table").rows[1:] == [["default", "1", "1", "1", "0"]]


def test_a_group_alone_is_a_wrong_call(bare: Cli):
    for group in ("workflow", "schedule", "namespace", "worker", "queue"):
        result = bare(group)
        assert (result.code, result.out) == (64, "")
        assert result.err.startswith(f"Usage: assay {group} ")


def test_an_empty_name_is_a_wrong_call(bare: Cli):
    assert bare("workflow", "describe", "").code == 64
    assert bare("namespace", "create", "").code == 64


def test_an_unknown_command_is_a_wrong_call(bare: Cli):
    assert bare("wrkflow", "list").code == 64
    assert bare("workflow", "lst").code == 64


def test_nothing_at_all_shows_the_help(bare: Cli):
    result = bare()
    assert (result.code, result.err) == (1, "")
    assert result.out.startswith("Usage: assay ")
