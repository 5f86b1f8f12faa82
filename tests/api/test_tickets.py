"""Tickets of event streams: used once, for half a minute, by the caller that received them."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assay.auth.memory_sessions import MemorySessions
from assay.auth.permissions import Principal, Role
from assay.auth.tickets import TICKET_LIFETIME, TicketRegistry
from assay.core.model.ids import SECOND
from tests.api.browsers import Browser, Keyed, stream_of
from tests.api.support import serving

NONE = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with serving(tmp_path_factory.mktemp("tickets"), "--auth-api-key") as server:
        yield Keyed(server)


def ticket_of(browser: Browser, **parameters: object) -> str:
    reply = browser.send("POST", "/sse-ticket", parameters)
    assert reply.status == 201, reply
    assert set(reply.json()) == {"ticket", "expires_at"}
    return str(reply.json()["ticket"])


def test_a_ticket_opens_one_stream_with_its_own_parameters(keyed: Keyed):
    browser = keyed.browser()
    ticket = ticket_of(browser, namespace="shop", kind=["workflow_started"])
    with stream_of(browser, f"?ticket={ticket}&namespace=main&kind=none", **NONE) as stream:
        assert stream.status == 200
        assert stream.readline() == b": connected\n"
        keyed.call("POST", "/workflows", {"workflow_type": "Order", "workflow_id": "here", "namespace": "main"})
        keyed.call("POST", "/workflows", {"workflow_type": "Order", "workflow_id": "there", "namespace": "shop"})
        assert stream.readline() == b"\n"
        lines = [stream.readline() for _ in range(3)]
        assert lines[1] == b"event: workflow_started\n"
        assert b'"there"' in lines[2]
        number = lines[0].split()[1].decode()
    with stream_of(browser, f"?ticket={ticket}", **NONE) as stream:
        assert stream.status == 401
    again = ticket_of(browser, namespace="shop")
    with stream_of(browser, f"?ticket={again}&last_event_id={int(number) - 1}", **NONE) as stream:
        assert stream.status == 200
        assert [stream.readline() for _ in range(3)][2] == f"id: {number}\n".encode()


@pytest.mark.parametrize("ticket", ["x", "0" * 64, "", "'", "%00"])
def test_an_unknown_ticket_is_no_credential(keyed: Keyed, ticket: str):
    with stream_of(keyed.browser(), f"?ticket={ticket}", **NONE) as stream:
        assert stream.status in (400, 401)
        assert b'"code":"' in stream.read()


def test_a_ticket_of_another_caller_is_refused(keyed: Keyed):
    own, other = keyed.browser(), keyed.browser(keyed.make(role="admin", label="other")["plaintext"])
    with stream_of(other, f"?ticket={ticket_of(own)}") as stream:
        assert stream.status == 401
    foreign = {"Authorization": f"Bearer {keyed.make(role='reader')['plaintext']}"}
    with stream_of(own, f"?ticket={ticket_of(own)}", **foreign) as stream:
        assert stream.status == 401
    with stream_of(own, f"?ticket={ticket_of(own)}", Authorization="Bearer assay_" + "0" * 64) as stream:
        assert stream.status == 401
    with stream_of(own, f"?ticket={ticket_of(own)}") as stream:
        assert stream.status == 200


def test_a_ticket_needs_what_its_stream_needs(keyed: Keyed):
    reader = keyed.browser(keyed.make(role="reader", namespaces=["shop"])["plaintext"])
    assert reader.send("POST", "/sse-ticket", {"namespace": "main"}).status == 404
    assert reader.send("POST", "/sse-ticket", {"namespace": ["shop", "main"]}).status == 404
    with stream_of(reader, f"?ticket={ticket_of(reader, namespace='*')}", **NONE) as stream:
        assert stream.status == 200
    worker = keyed.make(role="worker", namespaces=["shop"])["plaintext"]
    bearer = {"Authorization": f"Bearer {worker}"}
    assert keyed.http.post("/sse-ticket", {"namespace": "shop"}, **bearer).json()["code"] == "forbidden"
    assert keyed.http.post("/sse-ticket", {"namespace": "*"}, **bearer).json()["namespace"] == "*"
    assert keyed.http.post("/sse-ticket", {}).status == 401


def test_a_stream_by_ticket_ends_with_the_key(keyed: Keyed):
    key = keyed.make(role="reader")
    reply = keyed.http.post("/sse-ticket", {}, Authorization=f"Bearer {key['plaintext']}")
    with stream_of(keyed.browser(), f"?ticket={reply.json()['ticket']}", **NONE) as stream:
        assert stream.status == 200
        assert keyed.call("DELETE", f"/api-keys/{key['prefix']}").status == 204
        assert stream.read() == b": connected\n\n"
    revoked = keyed.make(role="reader")
    reply = keyed.http.post("/sse-ticket", {}, Authorization=f"Bearer {revoked['plaintext']}")
    assert keyed.call("DELETE", f"/api-keys/{revoked['prefix']}").status == 204
    with stream_of(keyed.browser(), f"?ticket={reply.json()['ticket']}", **NONE) as stream:
        assert stream.status == 401


def test_neither_tickets_nor_session_ids_are_stored(tmp_path: Path):
    with serving(tmp_path, "--auth-api-key") as server:
        keyed = Keyed(server)
        browser = keyed.browser()
        ticket = ticket_of(browser)
    with closing(sqlite3.connect(tmp_path / "assay-workflow.db")) as database:
        dump = "\n".join(database.iterdump())
    assert "stream_tickets" in dump
    assert ticket not in dump
    assert browser.cookie.partition("=")[2] not in dump
    assert keyed.admin not in dump


def test_a_ticket_lasts_half_a_minute():
    now = [0]
    tickets = TicketRegistry(MemorySessions(), lambda: now[0])
    caller = Principal("ada", "jwt", {"shop": frozenset({Role.READER})}, expires_at=7, session="d")

    async def scenario() -> None:
        (early, ends), (late, _) = await tickets.issue(caller, {}), await tickets.issue(caller, {"kind": ["a"]})
        assert ends == TICKET_LIFETIME == 30 * SECOND
        now[0] = TICKET_LIFETIME - 1
        taken = await tickets.take(early)
        assert taken is not None
        assert taken.principal() == caller
        assert await tickets.take(early) is None
        now[0] = TICKET_LIFETIME
        assert await tickets.take(late) is None

    asyncio.run(scenario())
