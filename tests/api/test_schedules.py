"""Schedules over HTTP: every route, its validation errors, and cron expressions in both dialects."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from assay.wire import responses
from tests.api.support import OTHER_PREFIX, Http, Listener, Server, Worker, complete, fresh, timeless

ORIGINAL = [
    *("name", "namespace", "workflow_type", "cron_expr", "timezone", "input", "task_queue", "overlap_policy"),
    *("paused", "last_run_at", "next_run_at", "last_workflow_id", "created_at"),
]
"""The 13 fields of a schedule in the original."""

NEVER = "0 0 0 1 1 *"
"""As good as never: no test is running when the year begins."""


@pytest.fixture
def name() -> str:
    return fresh("schedule")


def body(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "workflow_type": "Report", "cron_expr": NEVER, **fields}


def create(http: Http, name: str, **fields: Any) -> dict[str, Any]:
    reply = http.post("/schedules", body(name, **fields))
    assert reply.status == 201, reply
    return reply.json()


def fires(http: Http, name: str, query: str = "") -> list[dict[str, Any]]:
    reply = http.get(f"/schedules/{name}/fires{query}")
    assert reply.status == 200, reply
    return reply.json()


# the routes of the original


@pytest.mark.parametrize("prefix", ["/api/v1", OTHER_PREFIX])
def test_a_schedule_from_its_creation_to_its_end(server: Server, name: str, prefix: str):
    http = server.http(prefix)
    record = create(http, name, input={"region": "eu-west-1"}, namespace="main")
    assert list(record)[:13] == ORIGINAL
    assert (record["timezone"], record["task_queue"], record["overlap_policy"]) == ("UTC", "default", "skip")
    assert (record["paused"], record["last_run_at"], record["last_workflow_id"]) == (False, None, None)
    assert record["input"] == {"region": "eu-west-1"}
    assert record["next_run_at"] > record["created_at"]
    assert timeless(http.get(f"/schedules/{name}").json()) == timeless(record)
    assert timeless(record) in [timeless(each) for each in http.get("/schedules").json()]
    paused = http.post(f"/schedules/{name}/pause?namespace=main").json()
    assert paused["paused"] is True
    resumed = http.post(f"/schedules/{name}/resume").json()
    assert (resumed["paused"], resumed["next_run_at"]) == (False, record["next_run_at"])
    reply = http.delete(f"/schedules/{name}")
    assert (reply.status, reply.body) == (200, b"")
    reply = http.get(f"/schedules/{name}")
    assert (reply.status, reply.json()["error"]) == (404, f"not found: schedule {name}")


def test_records_have_the_shape_that_the_description_promises(http: Http, name: str):
    record = create(http, name, remaining=5)
    trigger = http.post(f"/schedules/{name}/trigger").json()
    assert msgspec.convert(record, responses.ScheduleRecord)
    assert msgspec.convert(trigger, responses.FireRecord)
    assert list(record) == [field.name for field in msgspec.structs.fields(responses.ScheduleRecord)]
    assert list(trigger) == [field.name for field in msgspec.structs.fields(responses.FireRecord)]


def test_every_option_comes_back(http: Http, name: str):
    options = {
        "cron_expr": "30 9 * * 1-5",
        "timezone": "Europe/Berlin",
        "task_queue": "reports",
        "overlap_policy": "queue",
        "dst": "both",
        "missed": "all",
        "window_secs": 7_200.0,
        "jitter_secs": 2.5,
        "end_at": 4_000_000_000.25,
        "remaining": 7,
        "search_attributes": {"team": "ops"},
        "memo": {"why": [1, None]},
        "paused": True,
        "pause_reason": "not yet",
        "paused_by": "ada",
    }
    record = create(http, name, **options)
    assert {field: record[field] for field in options} == options
    assert (record["waiting"], record["paused_at"]) == ([], record["created_at"])


def test_words_and_durations_are_read_generously(http: Http, name: str):
    record = create(http, name, overlap_policy="Allow-All", missed="ALL", window_secs="1h30m", jitter_secs=1)
    assert (record["overlap_policy"], record["missed"]) == ("allow_all", "all")
    assert (record["window_secs"], record["jitter_secs"]) == (5_400, 1)


@pytest.mark.parametrize(
    ("fields", "status", "code", "field"),
    [
        ({"cron_expr": "61 * * * * *"}, 400, "bad_cron", "cron_expr"),
        ({"cron_expr": "not a cron"}, 400, "bad_cron", "cron_expr"),
        ({"cron_expr": "@every 1ms"}, 400, "bad_cron", "cron_expr"),
        ({"cron_expr": "0 0 0 1 1 * 2020"}, 400, "never_fires", "cron_expr"),
        ({"timezone": "Mars/Olympus"}, 400, "bad_timezone", "timezone"),
        ({"overlap_policy": "sometimes"}, 400, "invalid", "overlap_policy"),
        ({"missed": "some"}, 400, "invalid", "missed"),
        ({"dst": "never"}, 400, "invalid", "dst"),
        ({"window_secs": -1}, 400, "invalid_duration", "window_secs"),
        ({"jitter_secs": "soon"}, 400, "invalid_duration", "jitter_secs"),
        ({"end_at": 5}, 400, "never_fires", "end_at"),
        ({"end_at": 1e300}, 400, "invalid", "end_at"),
        ({"remaining": 0}, 400, "invalid", "remaining"),
        ({"remaining": "many"}, 422, "wrong_shape", "remaining"),
        ({"workflow_type": ""}, 400, "invalid", "workflow_type"),
        ({"name": "x" * 300}, 400, "invalid", "name"),
        ({"namespace": "No Such"}, 400, "invalid", "namespace"),
        ({"search_attributes": {"no.dots": 1}}, 400, "invalid", "search_attributes.no.dots"),
        ({"memo": [1]}, 400, "invalid", "memo"),
        ({"cron_expr": None}, 422, "wrong_shape", "cron_expr"),
    ],
)
def test_what_is_wrong_is_pointed_at_and_not_stored(
    http: Http, name: str, fields: dict[str, Any], status: int, code: str, field: str
):
    reply = http.post("/schedules", body(name) | fields)
    assert (reply.status, reply.json()["code"], reply.json()["field"]) == (status, code, field), reply
    assert name not in [record["name"] for record in http.get("/schedules").json()]


def test_a_bad_expression_is_refused_with_its_position(http: Http, name: str):
    reply = http.post("/schedules", body(name, cron_expr="0 0 25 * * *"))
    assert "hour field '25' is wrong at character 4" in reply.json()["error"]


def test_missing_fields_are_named(http: Http):
    for missing in ("name", "workflow_type", "cron_expr"):
        fields_sent = {field: value for field, value in body("x").items() if field != missing}
        reply = http.post("/schedules", fields_sent)
        assert (reply.status, reply.json()["field"]) == (422, missing)


def test_a_name_is_taken_once(http: Http, name: str):
    create(http, name)
    reply = http.post("/schedules", body(name, cron_expr="@daily"))
    assert (reply.status, reply.json()["code"], reply.json()["name"]) == (409, "already_exists", name)
    assert http.get(f"/schedules/{name}").json()["cron_expr"] == NEVER


def test_a_repeated_request_creates_once(http: Http, name: str):
    first = http.post("/schedules", body(name), idempotency_key=f"key-{name}")
    again = http.post("/schedules", body(name), idempotency_key=f"key-{name}")
    assert (first.status, again.status, again.body) == (201, 201, first.body)
    assert again.headers["idempotent-replay"] == "true"


def test_namespaces_keep_schedules_apart_and_are_made_by_being_used(http: Http, name: str):
    space = fresh("ns")
    create(http, name, namespace=space)
    assert space in [row["name"] for row in http.get("/namespaces").json()]
    assert [record["name"] for record in http.get(f"/schedules?namespace={space}").json()] == [name]
    assert http.get(f"/schedules/{name}").status == 404
    assert http.get("/schedules?namespace=nowhere").json() == []
    assert http.get(f"/namespaces/{space}").json()["schedules"] == 1
    reply = http.delete(f"/namespaces/{space}")
    assert (reply.status, reply.json()["code"]) == (409, "namespace_in_use")
    assert http.delete(f"/schedules/{name}?namespace={space}").status == 200
    assert http.delete(f"/namespaces/{space}").status == 200


def test_a_bad_schedule_makes_no_namespace(http: Http, name: str):
    space = fresh("ns")
    assert http.post("/schedules", body(name, namespace=space, cron_expr="bad")).status == 400
    assert space not in [row["name"] for row in http.get("/namespaces").json()]


def test_a_list_is_ordered_by_name(http: Http):
    space = fresh("ns")
    for name in ("c", "a", "b"):
        create(http, name, namespace=space)
    assert [record["name"] for record in http.get(f"/schedules?namespace={space}").json()] == ["a", "b", "c"]


@pytest.mark.parametrize("empty", [None, b"", b"null", b"{}", b"[]"])
def test_an_empty_body_is_no_body(http: Http, name: str, empty: bytes | None):
    record = create(http, name)
    reply = http.send("PATCH", f"/schedules/{name}", empty)
    assert (reply.status, reply.json()) == (200, record)
    assert http.post(f"/schedules/{name}/pause", empty).json()["paused"] is True
    assert http.post(f"/schedules/{name}/resume", empty).json()["paused"] is False
    assert http.post(f"/schedules/{name}/trigger", empty).json()["outcome"] == "started"


def test_a_patch_changes_what_it_names(http: Http, name: str):
    record = create(http, name, input={"a": 1}, end_at=4e9, remaining=3)
    patched = http.send("PATCH", f"/schedules/{name}", {"cron_expr": "0 0 12 * * *", "task_queue": "slow"}).json()
    assert (patched["cron_expr"], patched["task_queue"]) == ("0 0 12 * * *", "slow")
    assert patched["next_run_at"] < record["next_run_at"]
    assert (patched["input"], patched["end_at"], patched["remaining"]) == ({"a": 1}, 4e9, 3)
    unchanged = http.send("PATCH", f"/schedules/{name}", {"input": None, "workflow_type": "Other", "name": "x"}).json()
    assert (unchanged["input"], unchanged["workflow_type"], unchanged["name"]) == ({"a": 1}, "Report", name)
    cleared = http.send("PATCH", f"/schedules/{name}", {"clear": ["input", "end_at", "remaining"]}).json()
    assert (cleared["input"], cleared["end_at"], cleared["remaining"]) == (None, None, None)
    assert http.send("PATCH", f"/schedules/{name}", {"clear": ["name"]}).status == 400


def test_a_refused_patch_leaves_the_schedule(http: Http, name: str):
    record = create(http, name)
    for fields in ({"cron_expr": "* * *"}, {"timezone": "Nowhere"}, {"overlap_policy": "x"}, {"task_queue": ""}):
        assert http.send("PATCH", f"/schedules/{name}", fields).status == 400
    assert timeless(http.get(f"/schedules/{name}").json()) == timeless(record)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/trigger"),
        ("GET", "/preview"),
        ("GET", "/fires"),
    ],
)
def test_a_schedule_that_is_not_there_is_not_found(http: Http, method: str, path: str):
    reply = http.send(method, f"/schedules/nobody{path}")
    assert (reply.status, reply.json()["error"]) == (404, "not found: schedule nobody")


@pytest.mark.parametrize("path", ["pause", "resume", "trigger"])
def test_a_body_that_is_none_is_refused(http: Http, name: str, path: str):
    record = create(http, name)
    assert http.post(f"/schedules/{name}/{path}", b"{bad").status == 400
    assert http.post(f"/schedules/{name}/{path}", b'{"a": 1}', Content_Type="text/plain").status == 415
    assert http.post(f"/schedules/{name}/{path}", b"\x1f\x8b", Content_Encoding="gzip").status == 415
    assert http.post(f"/schedules/{name}/{path}", b"[1]").status == 422
    assert timeless(http.get(f"/schedules/{name}").json()) == timeless(record)


def test_a_name_may_hold_anything(http: Http):
    name = fresh("a/b c%")
    record = create(http, name)
    path = "/schedules/" + name.replace("%", "%25").replace("/", "%2F").replace(" ", "%20")
    assert timeless(http.get(path).json()) == timeless(record)
    assert http.post(f"{path}/trigger").json()["outcome"] == "started"


# ours


def test_a_pause_says_who_and_why(http: Http, name: str):
    create(http, name)
    paused = http.post(f"/schedules/{name}/pause", {"reason": "upstream is down", "by": "ada"}).json()
    assert (paused["pause_reason"], paused["paused_by"]) == ("upstream is down", "ada")
    resumed = http.post(f"/schedules/{name}/resume").json()
    assert (resumed["pause_reason"], resumed["paused_by"], resumed["paused_at"]) == (None, None, None)


def test_a_preview_shows_the_next_due_times(http: Http, name: str):
    create(http, name, cron_expr="0 0 * * * *")
    due = http.get(f"/schedules/{name}/preview?count=3").json()
    assert [later - earlier for earlier, later in pairwise(due)] == [3_600, 3_600]
    assert due[0] == http.get(f"/schedules/{name}").json()["next_run_at"]
    assert len(http.get(f"/schedules/{name}/preview").json()) == 10
    for count in ("0", "-1", "1001", "x"):
        assert http.get(f"/schedules/{name}/preview?count={count}").status == 400


def test_a_trigger_answers_with_its_fire(http: Http, name: str):
    create(http, name)
    fire = http.post(f"/schedules/{name}/trigger").json()
    assert (fire["outcome"], fire["trigger"], fire["schedule"]) == ("started", "manual", name)
    run = http.describe(fire["workflow_id"])
    assert (run["run_id"], run["schedule"], run["workflow_type"]) == (fire["run_id"], name, "Report")
    again = http.post(f"/schedules/{name}/trigger").json()
    assert (again["outcome"], again["workflow_id"]) == ("skipped", None)
    third = http.post(f"/schedules/{name}/trigger", {"overlap_policy": "allow_all"}).json()
    assert third["outcome"] == "started"
    assert fires(http, name) == [third, again, fire]
    assert fires(http, name, "?limit=1") == [third]
    assert http.get(f"/schedules/{name}/fires?limit=0").status == 400


def test_a_put_creates_or_replaces(http: Http, name: str):
    wanted = {"workflow_type": "Report", "cron_expr": "0 0 2 * * *", "overlap_policy": "queue", "memo": {"a": 1}}
    made = http.send("PUT", f"/schedules/{name}", {**wanted, "paused": True})
    assert (made.status, made.json()["paused"]) == (201, True)
    again = http.send("PUT", f"/schedules/{name}", wanted)
    assert (again.status, again.json()["paused"], again.json()["memo"]) == (200, True, {"a": 1})
    http.post(f"/schedules/{name}/trigger")
    before = http.get(f"/schedules/{name}").json()
    other = {"workflow_type": "Other", "cron_expr": "0 0 3 * * *", "name": name}
    after = http.send("PUT", f"/schedules/{name}", other).json()
    assert (after["workflow_type"], after["overlap_policy"], after["memo"]) == ("Other", "skip", None)
    for kept in ("created_at", "last_run_at", "last_workflow_id", "paused"):
        assert after[kept] == before[kept]
    assert len(fires(http, name)) == 1
    for wrong in ({**other, "name": "another"}, {**other, "cron_expr": "nonsense"}, {**other, "timezone": "Mars"}):
        assert http.send("PUT", f"/schedules/{name}", wrong).status == 400
    assert http.send("PUT", f"/schedules/{name}", {"cron_expr": "@daily"}).status == 422
    assert timeless(http.get(f"/schedules/{name}").json()) == timeless(after)


def test_a_backfill_answers_with_its_fires(http: Http, name: str):
    create(http, name, cron_expr="0 0 * * * *", overlap_policy="allow_all")
    end = http.get(f"/schedules/{name}").json()["next_run_at"] - 3_600
    fields_sent = {"start": end - 7_200, "end": end, "overlap_policy": "allow_all"}
    made = http.post(f"/schedules/{name}/backfill", fields_sent).json()
    assert [(fire["due_at"] - end, fire["outcome"]) for fire in made] == [
        (-7_200, "started"),
        (-3_600, "started"),
        (0, "started"),
    ]
    assert http.describe(made[0]["workflow_id"])["scheduled_for"] == end - 7_200
    past = {"start": end - 5 * 3_600, "end": end - 3 * 3_600}
    queued = http.post(f"/schedules/{name}/backfill", past).json()
    assert [fire["outcome"] for fire in queued] == ["queued"] * 3  # runs are open
    again = http.post(f"/schedules/{name}/backfill", fields_sent).json()
    assert {fire["outcome"] for fire in again} == {"skipped"}
    for wrong in (
        {"start": 5, "end": 4},
        {"start": 0, "end": end},
        {"start": "a", "end": 1},
        {"start": 0, "end": 1.7e308},
        {},
    ):
        assert http.post(f"/schedules/{name}/backfill", wrong).status in (400, 422)


def test_a_schedule_fires_at_its_time_and_the_stream_says_so(server: Server, http: Http, name: str):
    listener = Listener(server.port, "?kind=schedule_fired,schedule_skipped,schedule_missed")
    queue = fresh("queue")
    try:
        create(http, name, cron_expr="* * * * * *", task_queue=queue, input={"n": 1})
        (fired,) = listener.wait("schedule_fired")[:1]
        facts = fired["data"]["payload"]
        assert (facts["schedule"], facts["outcome"]) == (name, "started")
        (skipped,) = listener.wait("schedule_skipped")[:1]
        assert (skipped["data"]["payload"]["schedule"], skipped["id"] > fired["id"]) == (name, True)
    finally:
        http.post(f"/schedules/{name}/pause")
        listener.close()
    run = http.describe(facts["workflow_id"])
    assert (run["scheduled_for"], run["input"]) == (facts["due_at"], {"n": 1})
    first = fires(http, name)[-1]
    assert 0 <= first["fired_at"] - first["due_at"] < 1
    worker = Worker(http, queue)
    worker.turn(run["id"], complete())
    again = Listener(server.port, "?kind=schedule_fired,workflow_started", str(fired["id"]))
    try:
        (started,) = again.wait("workflow_started")[:1]
        assert started["data"]["workflow_id"] == run["id"]  # what was heard is not said again, what was not is
    finally:
        again.close()


def test_a_queued_fire_starts_when_the_worker_is_done_with_the_run_before(http: Http, name: str):
    queue = fresh("queue")
    create(http, name, overlap_policy="queue", task_queue=queue)
    first, second = (http.post(f"/schedules/{name}/trigger").json() for _ in range(2))
    assert (first["outcome"], second["outcome"]) == ("started", "queued")
    assert http.get(f"/schedules/{name}").json()["waiting"] == [second["due_at"]]
    worker = Worker(http, queue)
    worker.turn(first["workflow_id"], complete())
    task = worker.task(wait_secs=10)
    assert task is not None
    assert task["workflow_id"] == second["workflow_id"]
    assert http.get(f"/schedules/{name}").json()["waiting"] == []


def test_a_start_with_a_cron_schedule_waits_for_its_time(http: Http):
    name = fresh()
    http.start(name, cron_schedule=NEVER)
    record = http.describe(name)
    assert record["cron_schedule"] == NEVER
    assert record["first_task_at"] > record["created_at"]
    reply = http.post("/workflows", {"workflow_type": "Order", "workflow_id": fresh(), "cron_schedule": "x"})
    assert (reply.status, reply.json()["code"]) == (400, "bad_cron")
