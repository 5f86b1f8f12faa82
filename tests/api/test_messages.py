"""Messages and updates over plain HTTP."""

import pytest

from tests.api.support import Http, claimed, fresh


def test_a_message_goes_to_an_address(http: Http):
    name = http.start()["workflow_id"]
    assert http.start()["pid"].startswith("wf://main/")
    sent = {"to": f"wf://main/{name}", "topic": "paid", "args": [{"n": 1}], "from": "shop"}
    reply = http.post("/messages", sent)
    assert (reply.status, reply.body) == (200, b"")
    http.post("/messages", {"to": f"wf://main/{name}", "topic": "pair", "args": [1, "two"]})
    one, two = [event["payload"] for event in http.history(name)[1:]]
    assert (one["signal"], one["payload"], one["from"]) == ("paid", {"n": 1}, "shop")
    assert "args" not in one
    assert (two["payload"], two["args"]) == ([1, "two"], [1, "two"])


@pytest.mark.parametrize(
    ("to", "status"),
    [("wf://main/nobody", 404), ("wf://nowhere/x", 404), ("no address", 404), ("upd://main/w/u", 400)],
)
def test_a_message_to_no_workflow_is_refused(http: Http, to: str, status: int):
    assert http.post("/messages", {"to": to, "topic": "x"}).status == status


def test_reserved_names_are_refused(http: Http):
    name = http.start()["workflow_id"]
    assert http.post(f"/workflows/{name}/signal/@exit").status == 400
    assert http.post("/messages", {"to": f"wf://main/{name}", "topic": "@exit"}).status == 400
    body = {"workflow_type": "T", "task_queue": "q", "signals": [{"name": "@x"}]}
    assert http.post("/workflows", body).status == 400
    for scheme in ("wf://", "mbx://", "upd://"):
        reply = http.post("/workflows", {"workflow_type": "T", "workflow_id": f"{scheme}main/x"})
        assert (reply.status, reply.json()["field"]) == (400, "workflow_id")


def test_an_id_with_other_characters_is_encoded_in_its_address(http: Http):
    name = fresh("a b/ö")
    pid = http.start(workflow_id=name)["pid"]
    assert "a%20b%2F%C3%B6" in pid
    assert http.post("/messages", {"to": pid, "topic": "hello"}).status == 200
    assert http.post("/messages", {"to": f"wf://main/{name}", "topic": "hello"}).status == 200
    assert http.kinds(name)[1:] == ["SignalReceived", "SignalReceived"]


def test_an_update_is_accepted_and_completed_by_a_worker(http: Http):
    worker, name = claimed(http)
    path = f"/workflows/{name}/update/add?wait_secs=0"
    first = http.post(path, {"args": [1], "update_id": "u-1"})
    assert (first.status, first.json()["status"]) == (202, "received")
    assert http.post(path, {"args": [1], "update_id": "u-1"}).json()["status"] == "received"
    assert http.kinds(name).count("UpdateReceived") == 1
    worker.commands(name, {"type": "UpdateResponse", "update_id": "u-1", "answer": "ack"})
    accepted = http.post(path, {"update_id": "u-1", "wait": "accepted"})
    assert (accepted.status, accepted.json()["status"]) == (200, "accepted")
    assert http.post(path, {"update_id": "u-1"}).status == 202
    http.post(f"/workflows/{name}/signal/go")
    worker.task()
    worker.commands(name, {"type": "UpdateResponse", "update_id": "u-1", "answer": "ok", "payload": {"n": 2}})
    done = http.post(path, {"update_id": "u-1"})
    assert (done.status, done.json()) == (
        200,
        {"update_id": "u-1", "status": "completed", "result": {"n": 2}, "failure": None},
    )


def test_an_update_to_no_open_run_is_not_found_and_bad_bodies_are_refused(http: Http):
    assert http.post("/workflows/nobody/update/add").status == 404
    name = http.start()["workflow_id"]
    assert http.post(f"/workflows/{name}/update/@x").status == 400
    assert http.post(f"/workflows/{name}/update/x", {"wait": "never"}).status == 400
    http.post(f"/workflows/{name}/terminate")
    assert http.post(f"/workflows/{name}/update/x").status == 404


def test_a_mailbox_keeps_its_messages_in_order_until_they_are_read(http: Http):
    made = http.post("/mailboxes", {})
    assert made.status == 201
    box = made.json()
    name, pid = box["mailbox_id"], box["pid"]
    assert (pid, http.post("/mailboxes", {"mailbox_id": name}).status) == (f"mbx://main/{name}", 200)
    for number in range(3):
        sent = {"to": pid if number else f"{pid}?re=7", "topic": "n", "args": [number], "from": "me"}
        assert http.post("/messages", sent).status == 200
    first, *rest = http.get(f"/mailboxes/{name}/messages").json()
    assert (first["seq"], first["topic"], first["from"], first["args"], first["re"]) == (1, "n", "me", [0], 7)
    assert [(one["seq"], one["args"], "re" in one) for one in rest] == [(2, [1], False), (3, [2], False)]
    assert [one["seq"] for one in http.get(f"/mailboxes/{name}/messages?after=2").json()] == [3]
    assert [one["seq"] for one in http.get(f"/mailboxes/{name}/messages").json()] == [3]
    assert http.get(f"/mailboxes/{name}/messages?after=3&wait=0").json() == []
    assert http.delete(f"/mailboxes/{name}").status == 200
    assert http.get(f"/mailboxes/{name}/messages").status == 404
    assert http.post("/messages", {"to": pid, "topic": "n"}).status == 404
    assert http.delete(f"/mailboxes/{name}").status == 404
