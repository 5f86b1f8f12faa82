import pytest

from tests.cli.support import Cli, Stub

NIGHTLY = {"name": "nightly", "workflow_type": "Report", "cron_expr": "0 0 2 * * *", "timezone": "UTC", "paused": False}


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        (["list"], "GET", "?", None),
        (["describe", "a/b"], "GET", "/a%2Fb?", None),
        (["create", "n", "--type", "T", "--cron", "@daily"], "POST", "?", {
            "name": "n", "namespace": "main", "workflow_type": "T", "cron_expr": "@daily", "task_queue": "default",
        }),
        (["create", "n", "--type", "T", "--cron", "* * * * *", "--timezone", "Europe/Berlin", "--input", "[1]",
          "--queue", "q", "--overlap", "ALLOW_ALL"], "POST", "?", {
            "name": "n", "namespace": "main", "workflow_type": "T", "cron_expr": "* * * * *", "task_queue": "q",
            "timezone": "Europe/Berlin", "input": [1], "overlap_policy": "allow_all",
        }),
        (["patch", "n", "--cron", "@hourly"], "PATCH", "/n?", {"cron_expr": "@hourly"}),
        (["patch", "n", "--timezone", "UTC", "--input", "5", "--queue", "q", "--overlap", "queue"], "PATCH", "/n?", {
            "timezone": "UTC", "input": 5, "task_queue": "q", "overlap_policy": "queue",
        }),
        (["pause", "n"], "POST", "/n/pause?", None),
        (["resume", "n"], "POST", "/n/resume?", None),
        (["delete", "n"], "DELETE", "/n?", None),
    ],
)  # fmt: skip
def test_what_is_sent(stubbed: Cli, stub: Stub, arguments: list[str], method: str, path: str, body: object):
    assert stubbed("schedule", *arguments).code == 0
    assert (stub.last.method, stub.last.body) == (method, body)
    assert stub.last.path == f"/api/v1/schedules{path}namespace=main"


@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
def test_what_is_said(stubbed: Cli, verb: str):
    done = {"pause": "paused", "resume": "resumed", "delete": "deleted"}[verb]
    assert stubbed("schedule", verb, "nightly", "--output", "table").out == f"nightly {done}\n"
    assert stubbed("schedule", verb, "nightly").json == {"message": f"nightly {done}", "ok": True}


def test_the_table(stubbed: Cli, stub: Stub):
    stub.answer([NIGHTLY, {"name": "x", "timezone": None, "paused": True}])
    assert stubbed("schedule", "list", "--output", "table").out == (
        "NAME     TYPE    CRON         TZ   PAUSED\n"
        "nightly  Report  0 0 2 * * *  UTC  false\n"
        "x        -       -            -    true\n"
    )


def test_a_patch_that_changes_nothing(stubbed: Cli, stub: Stub):
    told = stubbed("schedule", "patch", "nightly")
    assert (told.code, told.out, stub.asked) == (64, "", [])
    for option in ("--cron", "--timezone", "--input", "--queue", "--overlap"):
        assert option in told.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["create", "n"],
        ["create", "n", "--type", "T"],
        ["create", "n", "--type", "T", "--cron", "@daily", "--overlap", "never"],
        ["patch", "n", "--overlap", "never"],
        ["backfill", "n", "--from", "yesterday", "--to", "today"],
    ],
)
def test_a_wrong_call(stubbed: Cli, stub: Stub, arguments: list[str]):
    assert (stubbed("schedule", *arguments).code, stub.asked) == (64, [])
