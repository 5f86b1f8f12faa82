"""The audit in either database: with its change or not at all, counted refusals, filters, retention."""

import pytest
from msgspec.structs import replace

from assay.core.model.attached_rows import REFUSED, AttachedRows, AuditFilter, AuditRow
from assay.core.registrations import NamespaceRow
from assay.storage.ports import Changes
from assay.storage.sql.audit_rows import SqlAudit
from assay.storage.sql.leftovers import SqlLeftovers
from assay.storage.sql.registry import SqlRegistry
from tests.storage.support import AnyStore

NOW = 1_000_000


def row(actor: str = "ada", **fields: object) -> AuditRow:
    plain = AuditRow(
        at=NOW, actor=actor, credential="jwt", address="::1", action="startWorkflow", namespace="main", target="w"
    )
    return replace(plain, **fields)


@pytest.fixture
def audit(store: AnyStore) -> SqlAudit:
    return SqlAudit(store)


async def test_a_row_is_written_with_its_change_only(store: AnyStore, audit: SqlAudit):
    registry = SqlRegistry(store)
    assert await registry.create_namespace(NamespaceRow("a", NOW), AttachedRows(None, row(target="a", after=b"{}")))
    assert not await registry.create_namespace(NamespaceRow("a", NOW + 1), AttachedRows(None, row("bob")))
    found = await audit.page(AuditFilter(), 10)
    assert [(one.actor, one.target, one.before, one.after) for one in found] == [("ada", "a", None, b"{}")]


async def test_rows_of_decisions_are_written_in_their_transaction(store: AnyStore, audit: SqlAudit):
    await store.write(Changes(audits=[(None, row("ada")), (None, row("bob", at=NOW + 1))]))
    found = await audit.page(AuditFilter(), 10)
    assert [one.actor for one in found] == ["bob", "ada"]
    assert found[0].id > found[1].id > 0


async def test_refusals_with_the_same_key_are_one_row(audit: SqlAudit):
    refused = row(outcome=REFUSED, code="forbidden", merged_by="minute")
    await audit.count_refusals([replace(refused, count=3)])
    await audit.count_refusals([replace(refused, count=4), replace(refused, merged_by="another")])
    assert sorted(one.count for one in await audit.page(AuditFilter(outcome=REFUSED), 10)) == [1, 7]


async def test_a_filter_and_a_cursor(store: AnyStore, audit: SqlAudit):
    rows = [row(f"a{n}", at=NOW + n, namespace="x" if n % 2 else None) for n in range(6)]
    await store.write(Changes(audits=[(None, one) for one in rows]))
    first = await audit.page(AuditFilter(), 2)
    second = await audit.page(AuditFilter(before_id=first[-1].id), 10)
    assert [one.actor for one in (*first, *second)] == ["a5", "a4", "a3", "a2", "a1", "a0"]
    wanted = AuditFilter(namespaces=["x", "y"], after=NOW + 1, before=NOW + 5)
    assert [one.actor for one in await audit.page(wanted, 10)] == ["a3", "a1"]
    assert await audit.page(AuditFilter(actor="a1' OR 1=1 --"), 10) == []


async def test_old_rows_are_forgotten(store: AnyStore, audit: SqlAudit):
    await store.write(Changes(audits=[(None, row(f"a{n}", at=NOW + n)) for n in range(5)]))
    leftovers = SqlLeftovers(store)
    assert await leftovers.forget_audits(NOW + 3, 2) == 2
    assert await leftovers.forget_audits(NOW + 3, 2) == 1
    assert await leftovers.forget_audits(NOW + 3, 2) == 0
    assert [one.actor for one in await audit.page(AuditFilter(), 10)] == ["a4", "a3"]
