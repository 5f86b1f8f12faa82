import pytest

from assay.cli.arguments import OVERLAPS
from assay.cli.schedule import CLEARABLE, DST, MISSED
from assay.cli.times import timestamp
from assay.core.schedules.model import Missed, Overlap
from assay.core.schedules.timetable import Dst
from assay.wire import schedule_bodies as wire
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
        (["apply", "n", "--type", "T", "--cron", "@daily", "--search-attrs", "env=prod"], "PUT", "/n?", {
            "workflow_type": "T", "cron_expr": "@daily", "task_queue": "default", "search_attributes": {"env": "prod"},
        }),
        (["patch", "n", "--cron", "@hourly"], "PATCH", "/n?", {"cron_expr": "@hourly"}),
        (["patch", "n", "--timezone", "UTC", "--input", "5", "--queue", "q", "--overlap", "queue"], "PATCH", "/n?", {
            "timezone": "UTC", "input": 5, "task_queue": "q", "overlap_policy": "queue",
        }),
        (["pause", "n"], "POST", "/n/pause?", None),
        (["resume", "n"], "POST", "/n/resume?", None),
        (["delete", "n"], "DELETE", "/n?", None),
        (["pause", "n", "--reason", "r", "--by", "me"], "POST", "/n/pause?", {"reason": "r", "by": "me"}),
        (["trigger", "n"], "POST", "/n/trigger?", None),
        (["trigger", "n", "--overlap", "allow_all"], "POST", "/n/trigger?", {"overlap_policy": "allow_all"}),
        (["backfill", "n", "--from", "1970-01-02", "--to", "1970-01-02T01:00:00+01:00"], "POST", "/n/backfill?", {
            "start": 86400.0, "end": 86400.0,
        }),
        (["patch", "n", "--clear", "memo", "--clear", "input"], "PATCH", "/n?", {"clear": ["memo", "input"]}),
        (["patch", "n", "--input", "null"], "PATCH", "/n?", {"input": None, "clear": ["input"]}),
        (["patch", "n", "--input", "null", "--clear", "memo"], "PATCH", "/n?", {
            "input": None, "clear": ["memo", "input"],
        }),
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


TIMES = {"next_run_at": 1_794_803_839, "last_run_at": 0}


def test_the_table(stubbed: Cli, stub: Stub):
    stub.answer([NIGHTLY, {"name": "x", "timezone": None, "paused": True, **TIMES}])
    assert stubbed("schedule", "list", "--output", "table").out == (
        "NAME     TYPE    CRON         TZ   PAUSED  NEXT                      LAST\n"
        "nightly  Report  0 0 2 * * *  UTC  false   -                         -\n"
        "x        -       -            -    true    2026-11-16T04:37:19.000Z  1970-01-01T00:00:00.000Z\n"
    )


def test_a_patch_that_changes_nothing(stubbed: Cli, stub: Stub):
    result = stubbed("schedule", "patch", "nightly")
    assert (result.code, result.out, stub.requests) == (64, "", [])
    for option in ("--cron", "--timezone", "--input", "--queue", "--overlap"):
        assert option in result.err


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
    assert (stubbed("schedule", *arguments).code, stub.requests) == (64, [])


def test_choices_are_those_of_the_engine():
    assert tuple(Overlap) == OVERLAPS
    assert tuple(Missed) == MISSED
    assert tuple(Dst) == DST
    assert tuple(wire.CLEARABLE) == CLEARABLE


# with a real engine

CREATE = ["schedule", "create", "nightly", "--type", "Report", "--cron", "0 0 2 * * *"]


def test_the_life_of_a_schedule(cli: Cli, namespace: str):
    made = cli(*CREATE, "--timezone", "Europe/Berlin", "--input", '{"lookback_hours":24}')
    assert made.code == 0
    assert (made.json["name"], made.json["namespace"], made.json["task_queue"]) == ("nightly", namespace, "default")
    assert made.json["input"] == {"lookback_hours": 24}
    assert cli(*CREATE).code == 1
    row = cli("schedule", "list", "--output", "table").rows[1]
    assert row[:-2] == ["nightly", "Report", "0", "0", "2", "*", "*", "*", "Europe/Berlin", "false"]
    assert row[-2:] == [timestamp(made.json["next_run_at"]), "-"]
    due = cli("schedule", "preview", "nightly", "--count", "1", "--output", "table").rows[1][0]
    assert due[11:] in ("02:00:00.000+01:00", "02:00:00.000+02:00")
    assert cli("schedule", "patch", "nightly", "--cron", "0 0 3 * * *").json["cron_expr"] == "0 0 3 * * *"
    assert cli("schedule", "patch", "nightly", "--input", "null").json["input"] is None
    assert cli("schedule", "pause", "nightly", "--output", "table").out == "nightly paused\n"
    assert cli("schedule", "describe", "nightly").json["paused"] is True
    assert cli("schedule", "resume", "nightly", "--output", "table").out == "nightly resumed\n"
    assert cli("schedule", "describe", "nightly").json["paused"] is False
    assert cli("schedule", "delete", "nightly", "--output", "table").out == "nightly deleted\n"
    assert cli("schedule", "describe", "nightly").code == 1


def test_a_schedule_with_everything(cli: Cli):
    options = ["--queue", "q", "--overlap", "queue", "--missed", "all", "--window", "2h", "--jitter", "30s"]
    options += ["--dst", "shift", "--end-at", "2099-01-01T00:00:00Z", "--remaining", "3", "--paused"]
    record = cli(*CREATE, *options, "--search-attrs", '{"env": "prod"}', "--memo", '{"why": "x"}').json
    assert (record["task_queue"], record["overlap_policy"], record["missed"]) == ("q", "queue", "all")
    assert (record["window_secs"], record["jitter_secs"], record["dst"]) == (7200, 30, "shift")
    assert (record["end_at"], record["remaining"], record["paused"]) == (4_070_908_800, 3, True)
    assert (record["search_attributes"], record["memo"]) == ({"env": "prod"}, {"why": "x"})
    assert cli("schedule", "patch", "nightly", "--clear", "memo").json["memo"] is None


@pytest.mark.parametrize("cron", ["0 0 2 * * *", "0 2 * * *", "@daily", "@every 30s"])
def test_times_in_every_dialect(cli: Cli, cron: str):
    assert cli("schedule", "create", "s", "--type", "T", "--cron", cron).code == 0
    table = cli("schedule", "preview", "s", "--count", "3", "--output", "table")
    assert [len(row) for row in table.rows] == [1, 1, 1, 1]
    assert len(cli("schedule", "preview", "s").json) == 10


@pytest.mark.parametrize(("cron", "zone"), [("nonsense", "UTC"), ("0 0 2 * * *", "Mars/Base")])
def test_what_the_engine_refuses(cli: Cli, cron: str, zone: str):
    result = cli("schedule", "create", "s", "--type", "T", "--cron", cron, "--timezone", zone)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: schedule create: HTTP 400: ")


@pytest.mark.parametrize("output", ["table", "json", "jsonl", "yaml"])
def test_fires_by_hand(cli: Cli, output: str):
    cli(*CREATE, "--overlap", "allow_all")
    fire = cli("schedule", "trigger", "nightly").json
    assert (fire["outcome"], fire["trigger"]) == ("started", "manual")
    assert cli("workflow", "describe", fire["workflow_id"]).json["schedule"] == "nightly"
    past = ["--from", "2026-01-01", "--to", "2026-01-03", "--overlap", "allow_all"]
    result = cli("schedule", "backfill", "nightly", *past, "--output", output)
    again = cli("schedule", "fires", "nightly", "--limit", "2", "--output", output)
    assert (result.code, again.code) == (0, 0)
    if output == "table":
        assert result.rows[0] == ["DUE", "OUTCOME", "WORKFLOW", "REASON"]
        assert [row[:2] for row in result.rows[1:]] == [
            ["2026-01-01T02:00:00.000Z", "started"],
            ["2026-01-02T02:00:00.000Z", "started"],
        ]
    else:
        read = {"json": lambda: result.json, "jsonl": lambda: result.lines, "yaml": lambda: result.yaml}[output]
        assert [fire["outcome"] for fire in read()] == ["started", "started"]


@pytest.mark.parametrize("name", ["with blank", "a/b", "ünï-名"])
def test_odd_names(cli: Cli, name: str):
    assert cli("schedule", "create", name, "--type", "T", "--cron", "@daily").json["name"] == name
    assert cli("schedule", "pause", name, "--output", "table").out == f"{name} paused\n"
    assert cli("schedule", "delete", name).code == 0


def test_what_is_not_there(cli: Cli):
    for arguments in (["describe"], ["pause"], ["resume"], ["delete"], ["trigger"], ["preview"], ["fires"]):
        result = cli("schedule", *arguments, "nobody")
        assert result.code == 1
        assert "HTTP 404" in result.err
    assert cli("schedule", "patch", "nobody", "--cron", "@daily").code == 1
