"""Keys: their form, their fields, and the ring of live keys in memory."""

from typing import Any

import pytest

from assay.auth.api_keys import (
    BOOTSTRAP_KEY,
    ApiKey,
    NewKey,
    check_new_key,
    digest_of,
    full_prefix,
    is_key,
    key_text,
    may_manage,
    prefix_of,
)
from assay.auth.key_ring import KeyRing
from assay.auth.permissions import UNRESTRICTED, Permission, Principal, Role
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND

NOW = 1_000 * SECOND
KEY = key_text(bytes(range(32)))
ADMIN_OF_SHOP = Principal("ada", "assay_11111111...", {"shop": frozenset({Role.ADMIN})})


def stored(**fields: Any) -> ApiKey:
    return NewKey(**fields).stored(KEY, NOW)


def test_a_key_is_the_product_name_and_64_hex_digits():
    assert "assay_" + bytes(range(32)).hex() == KEY
    assert is_key(KEY)
    assert prefix_of(KEY) == "assay_00010203..."
    assert full_prefix("assay_00010203") == full_prefix("assay_00010203...") == prefix_of(KEY)


@pytest.mark.parametrize("text", ["", KEY[:-1], KEY + "0", KEY.upper(), KEY + "\n", "Assay_" + KEY[6:], "x" * 70])
def test_other_texts_are_no_keys(text: str):
    assert not is_key(text)


def test_the_key_is_not_stored():
    assert KEY not in repr(stored())
    assert stored().digest == digest_of(KEY)
    assert len(digest_of(KEY)) == 64


def test_fields_have_defaults():
    assert check_new_key(creator=UNRESTRICTED, now=NOW) == NewKey(role=Role.OPERATOR, namespaces=("*",))
    assert check_new_key(creator=ADMIN_OF_SHOP, now=NOW).namespaces == ("shop",)
    assert BOOTSTRAP_KEY.role is Role.ADMIN


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("label", ""),
        ("label", 5),
        ("label", "a\nb"),
        ("role", "root"),
        ("role", ["admin"]),
        ("namespaces", []),
        ("namespaces", "shop"),
        ("namespaces", ["*", "shop"]),
        ("namespaces", [5]),
        ("queues", []),
        ("queues", [""]),
        ("expires_at", NOW),
    ],
)
def test_other_values_are_refused_by_name(field: str, value: object):
    with pytest.raises(Invalid) as caught:
        check_new_key(**{field: value}, creator=UNRESTRICTED, now=NOW)
    assert caught.value.field == field


def test_a_key_gives_its_role_in_its_namespaces():
    caller = stored(label="ci", role=Role.WORKER, namespaces=("a", "b"), queues=("q",)).principal()
    assert caller.user == "ci"
    assert caller.credential == prefix_of(KEY)
    assert caller.allows(Permission.WORK, "a")
    assert not caller.allows(Permission.READ, "a")
    assert caller.queues == {"q"}
    assert stored().principal().user == prefix_of(KEY)


def test_keys_are_managed_by_admins_of_all_their_namespaces():
    assert may_manage(ADMIN_OF_SHOP, ["shop"])
    assert not may_manage(ADMIN_OF_SHOP, ["shop", "other"])
    assert not may_manage(ADMIN_OF_SHOP, ["*"])
    assert may_manage(UNRESTRICTED, ["*"])


def test_the_ring_finds_live_keys_only():
    ring = KeyRing()
    ring.load([stored(expires_at=NOW + SECOND)], counter=1, now=NOW)
    assert ring.find(KEY, NOW) is not None
    assert ring.find(KEY, NOW + SECOND) is None
    assert ring.find(key_text(bytes(32)), NOW) is None
    assert ring.find("assay_", NOW) is None
    assert ring.find_prefix(prefix_of(KEY), NOW)
    assert not ring.find_prefix(prefix_of(KEY), NOW + SECOND)


def test_unknown_keys_share_one_read_in_a_while():
    ring = KeyRing()
    assert ring.may_reread(NOW)
    ring.load([], counter=1, now=NOW)
    assert not ring.may_reread(NOW + SECOND // 20)
    assert ring.may_reread(NOW + SECOND // 10)
    assert ring.is_stale(2)
    assert not ring.is_stale(1)


def test_the_use_of_a_key_is_written_once_a_minute():
    ring, key = KeyRing(), stored()
    assert ring.note_use(key, NOW)
    assert not ring.note_use(key, NOW + 59 * SECOND)
    assert ring.note_use(key, NOW + 60 * SECOND)
