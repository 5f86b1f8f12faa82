"""Mailboxes that watch workflows: the end of a chain is a letter, once."""

from typing import Any

from tests.api.support import Http, fresh


def opened(http: Http) -> tuple[str, str]:
    mailbox = http.post("/mailboxes", {}).json()
    return mailbox["mailbox_id"], mailbox["pid"]


def started(http: Http, **more: Any) -> str:
    name = fresh("watched")
    assert http.post("/workflows", {"workflow_type": "T", "workflow_id": name, **more}).status == 201
    return name


def letters(http: Http, mailbox: str, wait: int = 10) -> list[Any]:
    found = http.get(f"/mailboxes/{mailbox}/messages?after=0&wait={wait}").json()
    return [(letter["topic"], letter["args"][0]) for letter in found]


def test_a_mailbox_monitors_a_workflow(http: Http):
    mailbox, pid = opened(http)
    name = started(http)
    target = f"wf://main/{name}"
    for _ in range(2):
        reply = http.send("PUT", "/watches", {"watcher": pid, "target": target, "mode": "monitor"})
        assert (reply.status, reply.body) == (200, b"")
    assert http.post(f"/workflows/{name}/terminate", {"reason": "enough"}).status == 200
    ((topic, letter),) = letters(http, mailbox)
    assert (topic, letter["kind"], letter["from"], letter["value"]) == ("@exit", "pid.exit", target, None)
    assert (letter["error"]["kind"], letter["error"]["message"]) == ("CANCELED", "workflow terminated: enough")
    assert letter["error"]["retryable"] is False


def test_a_link_of_a_failed_workflow_goes_down_after_its_exit(http: Http):
    mailbox, pid = opened(http)
    name = started(http, monitor_by=pid, link_by=pid)
    assert http.post(f"/workflows/{name}/terminate", {}).status == 200
    assert [topic for topic, _ in letters(http, mailbox)] == ["@exit", "@link_down"]


def test_a_closed_and_an_unknown_workflow_fire_at_once(http: Http):
    mailbox, pid = opened(http)
    name = started(http)
    assert http.post(f"/workflows/{name}/terminate", {}).status == 200
    assert (
        http.send("PUT", "/watches", {"watcher": pid, "target": f"wf://main/{name}", "mode": "monitor"}).status == 200
    )
    assert letters(http, mailbox)[0][1]["error"]["kind"] == "CANCELED"
    other, pid = opened(http)
    target = f"wf://main/{fresh('nobody')}"
    assert http.send("PUT", "/watches", {"watcher": pid, "target": target, "mode": "link"}).status == 200
    ((topic, letter),) = letters(http, other)
    assert (topic, letter["error"]["kind"]) == ("@link_down", "NOT_FOUND")


def test_an_ended_watch_brings_nothing(http: Http):
    mailbox, pid = opened(http)
    names = [started(http, monitor_by=pid) for _ in range(2)]
    first, second = (f"wf://main/{name}" for name in names)
    assert http.send("DELETE", "/watches", {"watcher": pid, "target": first, "mode": "monitor"}).status == 200
    assert http.delete(f"/watches?watcher={pid}&target={second}").status == 200
    assert http.send("DELETE", "/watches", {"watcher": pid, "target": "wf://main/never"}).status == 200
    last = started(http, monitor_by=pid)
    for name in (*names, last):
        assert http.post(f"/workflows/{name}/terminate", {}).status == 200
    assert [letter["from"] for _, letter in letters(http, mailbox)] == [f"wf://main/{last}"]


def test_only_mailboxes_watch(http: Http):
    name = started(http)
    for body in (
        {"watcher": "wf://main/x", "target": f"wf://main/{name}"},
        {"watcher": "mbx://main/x", "target": "no address"},
        {"watcher": "mbx://main/x", "target": f"wf://main/{name}", "mode": "stare"},
    ):
        assert http.send("PUT", "/watches", body).status == 400
    assert http.post("/workflows", {"workflow_type": "T", "monitor_by": "wf://main/x"}).status == 400
