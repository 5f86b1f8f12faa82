"""When a key set is fetched, and what is kept while the issuer fails."""

import json

import pytest

from assay.auth.key_sets import MAX_KEY_SET_BYTES, KeySet, KeySetCache, parse_key_set
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND

EMPTY = KeySet(())
MINUTE = 60 * SECOND


def test_a_set_is_due_at_first_and_after_ten_minutes():
    cache = KeySetCache()
    assert cache.is_due(0)
    cache.store(EMPTY, 0)
    assert not cache.is_due(10 * MINUTE - 1)
    assert cache.is_due(10 * MINUTE)


def test_a_failed_fetch_keeps_the_set_for_a_day():
    cache = KeySetCache()
    cache.store(EMPTY, 0)
    cache.fail(11 * MINUTE)
    assert cache.current is EMPTY
    assert not cache.is_due(11 * MINUTE + 29 * SECOND)
    assert cache.is_due(11 * MINUTE + 30 * SECOND)
    cache.fail(24 * 60 * MINUTE)
    assert cache.current is EMPTY
    cache.fail(24 * 60 * MINUTE + 1)
    assert cache.current is None


def test_unknown_keys_cause_one_fetch_in_thirty_seconds():
    cache = KeySetCache()
    cache.store(EMPTY, 0)
    fetches = 0
    for number in range(10_000):
        now = number * SECOND // 100
        if cache.may_fetch_for(f"random-{number}", now):
            fetches += 1
            cache.store(EMPTY, now)
    assert fetches == 3  # 100 seconds


def test_an_unknown_key_is_asked_for_once():
    cache = KeySetCache()
    assert cache.may_fetch_for("a", 0)
    cache.store(EMPTY, 0)
    assert not cache.may_fetch_for("a", MINUTE)
    assert cache.may_fetch_for("b", MINUTE)


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b'{"keys": {}}', json.dumps({"keys": [{}] * 51}).encode(), b" " * (MAX_KEY_SET_BYTES + 1)],
)
def test_other_documents_are_refused(document: bytes):
    with pytest.raises(Invalid):
        parse_key_set(document)


def test_keys_that_cannot_be_read_are_left_out():
    broken = {"kty": "RSA", "n": "!", "e": "AQAB"}
    assert parse_key_set(json.dumps({"keys": [broken, 5, {"kty": "EC", "crv": "P-521"}]}).encode()) == EMPTY
