from prometheus_client.parser import text_string_to_metric_families

from assay._version import __version__
from assay.api import docs
from tests.api.support import Http, Server, Worker, activity, complete, fresh


def test_health_is_static(http: Http):
    reply = http.get("/health")
    assert (reply.status, reply.json()) == (200, {"status": "ok", "service": "assay-workflow"})


def test_the_version_says_the_limits(http: Http):
    body = http.get("/version").json()
    assert (body["version"], body["build_profile"]) == (__version__, "release")
    limits = body["limits"]
    assert (limits["body_bytes"], limits["payload_bytes"]) == (4 * 1024 * 1024, 2 * 1024 * 1024)
    assert (limits["history_events"], limits["json_depth"], limits["id_bytes"]) == (50_000, 64, 255)
    assert (limits["long_polls"], limits["long_poll_secs"]) == (1_000, 25)


def test_probes(http: Http):
    for path in ("/healthz", "/readyz"):
        reply = http.raw("GET", path)
        assert (reply.status, reply.json()["status"]) == (200, "ok")


def test_the_docs_work_without_the_outside_world(server: Server, http: Http):
    page = http.get("/docs")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert b"://" not in page.body
    assert "unsafe-eval" not in page.headers["content-security-policy"]
    viewer = http.get("/docs/standalone.js")
    if docs._viewer() is None:
        assert (viewer.status, b"make dashboard" in page.body) == (404, True)
    else:
        assert viewer.status == 200
        assert viewer.headers["content-type"] == "text/javascript; charset=utf-8"
        assert b"docs/standalone.js" in page.body
        assert b"openapi.json" in page.body
    assert http.get("/docs/other.js").status == 404


def values(http: Http) -> dict[str, float]:
    reply = http.raw("GET", "/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(reply.body.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_metrics_count_what_happens(http: Http):
    before = values(http)
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    http.start(task_queue=queue)
    waiting = values(http)
    assert waiting[f"assay_queue_depth{{kind=workflow_task,namespace=main,queue={queue}}}"] == 2
    assert waiting[f"assay_queue_oldest_seconds{{namespace=main,queue={queue}}}"] >= 0
    worker.turn(name, activity(task_queue=queue))
    task = worker.activity()
    assert task is not None
    worker.complete(task)
    assert worker.task() is not None
    http.post(f"/workflows/{name}/terminate")
    after = values(http)

    def grown(key: str) -> float:
        return after[key] - before.get(key, 0)

    assert grown("assay_workflows_started_total") == 2
    assert grown("assay_workflows_closed_total{status=FAILED}") == 1
    assert grown("assay_workflow_task_wait_seconds_count") == 2
    assert grown("assay_activity_wait_seconds_count") == 1
    assert grown("assay_commit_seconds_count") == grown("assay_batch_requests_count") >= 6
    assert grown("assay_http_answers_total{operation=startWorkflow,status=201}") == 2
    assert "assay_polls_held" in after
    assert "assay_event_streams" in after


def test_metrics_count_expired_leases(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue, task_timeout=0.2)["workflow_id"]
    before = values(http)["assay_leases_expired_total{kind=workflow_task}"]
    assert worker.task() is not None
    assert worker.task(wait_secs=10) is not None
    worker.commands(name, complete())
    assert values(http)["assay_leases_expired_total{kind=workflow_task}"] == before + 1
