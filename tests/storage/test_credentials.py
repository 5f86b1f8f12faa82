"""API keys, sessions and tickets, alike on both databases."""

import asyncio
from typing import Any

import pytest

from assay.core.model.attached_rows import AttachedRows
from assay.core.model.ids import SECOND
from assay.storage.credential_rows import KeyRow, SessionRow
from assay.storage.ports import RequestOutcome
from assay.storage.sql.credentials import SqlCredentials
from tests.core.support import NOW
from tests.storage.support import AnyStore


@pytest.fixture
def credentials(store: AnyStore) -> SqlCredentials:
    return SqlCredentials(store)


def key(name: str, **fields: Any) -> KeyRow:
    row: dict[str, Any] = {
        "label": None,
        "role": "operator",
        "namespaces": ("*",),
        "queues": None,
        "created_at": NOW,
        "expires_at": None,
        "revoked_at": None,
        "last_used_at": None,
    }
    return KeyRow(digest=f"digest-{name}", prefix=f"assay_{name}...", **{**row, **fields})


def session(name: str, **fields: Any) -> SessionRow:
    row: dict[str, Any] = {
        "user_name": "ada",
        "credential": "assay_a...",
        "roles": b"{}",
        "queues": None,
        "csrf": "c",
        "created_at": NOW,
        "expires_at": NOW + SECOND,
    }
    return SessionRow(digest=name, **{**row, **fields})


async def test_keys_are_kept_newest_first_and_changes_are_counted(credentials: SqlCredentials):
    before = await credentials.changes()
    assert not await credentials.had_key()
    one = key("a", label="ci", namespaces=("x", "y"), queues=("q",), expires_at=NOW + 5)
    await credentials.add_key(one)
    await credentials.add_key(key("b", created_at=NOW + 1))
    assert await credentials.keys() == [key("b", created_at=NOW + 1), one]
    assert await credentials.changes() == before + 2
    assert await credentials.had_key()


async def test_of_many_first_keys_one_is_made(credentials: SqlCredentials):
    made = await asyncio.gather(*(credentials.add_first_key(key(str(number))) for number in range(8)))
    assert sum(made) == 1
    assert len(await credentials.keys()) == 1
    assert not await credentials.add_first_key(key("late"))


async def test_a_revoked_first_key_does_not_open_the_window_again(credentials: SqlCredentials):
    await credentials.add_first_key(key("a"))
    assert await credentials.revoke("assay_a...", NOW + 1)
    assert not await credentials.revoke("assay_a...", NOW + 2)
    assert not await credentials.revoke("assay_gone...", NOW + 2)
    assert not await credentials.add_first_key(key("b"))
    assert (await credentials.keys())[0].revoked_at == NOW + 1


async def test_a_label_has_one_live_key_however_many_ask(credentials: SqlCredentials):
    rows = [key(str(number), label="ci") for number in range(8)]
    found = await asyncio.gather(*(credentials.add_key_of_label(row) for row in rows))
    assert len({one.prefix for one in found}) == 1
    await credentials.revoke(found[0].prefix, NOW + 1)
    again = await credentials.add_key_of_label(key("new", label="ci", created_at=NOW + 2))
    assert again.prefix == "assay_new..."


async def test_a_rotated_key_ends_after_the_overlap_unless_it_ends_sooner(credentials: SqlCredentials):
    await credentials.add_key(key("a"))
    await credentials.add_key(key("b", expires_at=NOW + 5))
    for name in "ab":
        await credentials.rotate(f"assay_{name}...", NOW + 10, key(f"{name}2", created_at=NOW + 1))
    ends = {row.prefix: row.expires_at for row in await credentials.keys()}
    assert ends == {"assay_a...": NOW + 10, "assay_b...": NOW + 5, "assay_a2...": None, "assay_b2...": None}


async def test_an_outcome_is_kept_with_the_key(store: AnyStore, credentials: SqlCredentials):
    outcome = RequestOutcome("main", "k", b"fingerprint", 200, b"{}", NOW)
    await credentials.add_key(key("a"), AttachedRows(outcome))
    assert list(await store.outcomes([("main", "k")])) == [outcome]


async def test_the_last_use_is_kept(credentials: SqlCredentials):
    await credentials.add_key(key("a"))
    await credentials.used("digest-a", NOW + 7)
    assert (await credentials.keys())[0].last_used_at == NOW + 7


async def test_sessions_end_with_time_sign_out_and_their_key(credentials: SqlCredentials):
    await credentials.add_session(session("one"))
    await credentials.add_session(session("two", credential="jwt", queues=b"[]"))
    assert await credentials.session("one", NOW) == session("one")
    assert await credentials.session("one", NOW + SECOND) is None
    await credentials.revoke("assay_a...", NOW)
    assert await credentials.session("one", NOW) is None
    assert await credentials.end_session("two")
    assert not await credentials.end_session("two")


async def test_a_ticket_is_taken_once_and_in_time(credentials: SqlCredentials):
    await credentials.add_ticket("t", b"content", NOW + 30, NOW)
    taken = await asyncio.gather(*(credentials.take_ticket("t", NOW) for _ in range(4)))
    assert taken.count(b"content") == 1
    await credentials.add_ticket("late", b"content", NOW + 30, NOW)
    assert await credentials.take_ticket("late", NOW + 30) is None
