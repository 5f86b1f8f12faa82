"""The exchange by POST, as any program can speak it."""

import gzip
import json
import threading
import time
from typing import Any

import pytest

from tests.api.support import JSON, PREFIX, Http, Reply, fresh


class Posts:
    """One worker that says what a test wants."""

    def __init__(self, http: Http, queue: str | None = None) -> None:
        self.http = http
        self.queue = queue or fresh("queue")
        self.path = f"/workers/{fresh('w')}/exchange"

    def exchange(self, **message: Any) -> Reply:
        return self.http.post(self.path, message)

    def hello(self, wait_secs: float = 0, **fields: Any) -> Reply:
        return self.exchange(hello={"queue": self.queue, "free_tasks": 1, **fields}, wait_secs=wait_secs)


@pytest.fixture
def posts(http: Http) -> Posts:
    return Posts(http)


@pytest.mark.parametrize("number", [2**63, 2**80, -1, -(2**70), 1_000_001])
@pytest.mark.parametrize("field", ["max_concurrent_workflows", "max_concurrent_activities"])
def test_hands_are_bounded_as_in_a_registration(http: Http, posts: Posts, field: str, number: int):
    message = posts.hello(**{field: number})
    registered = http.post("/workers/register", {"identity": "x", "queue": "q", field: number})
    assert message.status == registered.status == 400
    assert {**message.json(), "request_id": ""} == {**registered.json(), "request_id": ""}
    assert posts.exchange(reports=[]).json()["code"] == "unknown_worker", "it was never heard of"


@pytest.mark.parametrize("after", [2**66, 2**63, -1])
def test_a_history_from_nowhere_is_a_problem(http: Http, posts: Posts, after: int):
    http.start(task_queue=posts.queue)
    (task,) = posts.hello(wait_secs=20).json()["tasks"]
    message = posts.exchange(reports=[{"type": "history", "n": 1, "token": task["token"], "after": after}]).json()
    (answer,) = message["answers"]
    assert (answer["n"], answer["problem"]["field"]) == (1, "after")
    message = posts.exchange(reports=[{"type": "history", "n": 2, "token": task["token"]}]).json()
    assert [event["kind"] for event in message["answers"][0]["events"]] == ["WorkflowStarted"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Content-Type": "text/plain"}, "unsupported_media_type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "unsupported_media_type"),
        ({**JSON, "Content-Encoding": "gzip"}, "unsupported_encoding"),
    ],
)
def test_other_kinds_of_content_are_refused(posts: Posts, headers: dict[str, str], code: str):
    body = json.dumps({"hello": {"queue": posts.queue}}).encode()
    body = gzip.compress(body) if "Content-Encoding" in headers else body
    reply = posts.http.raw("POST", PREFIX + posts.path, body, headers)
    assert (reply.status, reply.json()["code"]) == (415, code)


@pytest.mark.parametrize("headers", [{}, JSON, {"Content-Type": "application/json; charset=utf-8"}])
def test_json_is_json_with_or_without_saying_so(posts: Posts, headers: dict[str, str]):
    body = json.dumps({"hello": {"queue": posts.queue}}).encode()
    assert posts.http.raw("POST", PREFIX + posts.path, body, headers).status == 200


def test_a_hello_brings_what_is_ready(http: Http, posts: Posts):
    name = http.start(task_queue=posts.queue)["workflow_id"]
    (task,) = posts.hello(wait_secs=20).json()["tasks"]
    assert (task["workflow_id"], task["epoch"], task["events"][0]["kind"]) == (name, 1, "WorkflowStarted")


def test_a_hello_waits_for_what_comes(http: Http, posts: Posts):
    found: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: found.append(posts.hello(wait_secs=20).json()))
    waiting.start()
    name = http.start(task_queue=posts.queue)["workflow_id"]
    waiting.join(15)
    assert [task["workflow_id"] for task in found[0]["tasks"]] == [name]


def test_a_hello_waits_no_longer_than_it_says(posts: Posts):
    began = time.monotonic()
    assert "tasks" not in posts.hello().json()
    assert "tasks" not in posts.hello(wait_secs=0.5).json()
    assert 0.5 <= time.monotonic() - began < 5


def test_who_says_hello_again_ends_the_waiting_of_before(posts: Posts):
    held: list[Reply] = []
    waiting = threading.Thread(target=lambda: held.append(posts.hello(wait_secs=20)))
    waiting.start()
    deadline = time.monotonic() + 15
    while not held and time.monotonic() < deadline:
        assert posts.hello().status == 200
    waiting.join(15)
    assert held[0].status == 200
