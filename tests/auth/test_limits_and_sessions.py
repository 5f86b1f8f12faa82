"""Failed attempts, remembered tokens, addresses that are never connected to, and sessions."""

import ipaddress

import pytest

from assay.auth.addresses import check_configured, check_discovered, checked_url, is_loopback_url
from assay.auth.failed_attempts import ATTEMPTS_PER_MINUTE, FailedAttempts
from assay.auth.permissions import Principal, Role
from assay.auth.sessions import SESSION_LIFETIME, cookie_name, new_session, read_cookies, session_digest, set_cookie
from assay.auth.verified_tokens import VerifiedTokens
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND

ADA = Principal("ada", "jwt", {"shop": frozenset({Role.ADMIN})}, expires_at=100 * SECOND)


def test_a_burst_of_failures_is_refused_beyond_its_limit():
    attempts = FailedAttempts()
    assert [attempts.note("a", 0) for _ in range(ATTEMPTS_PER_MINUTE)] == [0] * ATTEMPTS_PER_MINUTE
    assert 0 < attempts.note("a", 0) <= SECOND
    assert attempts.note("b", 0) == 0
    assert attempts.note("a", SECOND) == 0


def test_verified_tokens_are_remembered_for_a_minute_and_by_one_key_set():
    tokens = VerifiedTokens()
    tokens.add("t", ADA, 1, 0)
    assert tokens.find("t", 1, 59 * SECOND) is ADA
    assert tokens.find("t", 1, 60 * SECOND) is None
    tokens.add("t", ADA, 1, 90 * SECOND)
    assert tokens.find("t", 1, 100 * SECOND) is None  # the token itself has ended
    tokens.add("t", ADA, 1, 0)
    assert tokens.find("t", 2, 0) is None


@pytest.mark.parametrize("text", ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254", "::", "100.100.100.200"])
def test_metadata_addresses_are_never_connected_to(text: str):
    with pytest.raises(Invalid):
        check_configured(ipaddress.ip_address(text))


def test_a_discovery_document_names_private_addresses_only_for_a_private_issuer():
    private, public = ipaddress.ip_address("10.0.0.5"), ipaddress.ip_address("8.8.8.8")
    issuer = "https://login.example"
    check_discovered("https://keys.example", public, issuer=issuer, issuer_is_private=False)
    check_discovered("https://keys.example", private, issuer=issuer, issuer_is_private=True)
    check_discovered(
        "http://127.0.0.1:8000/keys",
        ipaddress.ip_address("127.0.0.1"),
        issuer="http://localhost",
        issuer_is_private=True,
    )
    for url, address in (("https://keys.example", private), ("http://keys.example", public)):
        with pytest.raises(Invalid):
            check_discovered(url, address, issuer=issuer, issuer_is_private=False)


@pytest.mark.parametrize(
    "url", ["ftp://a", "https://", "http://issuer.example", "https://u:p@a", "https://a:x", "https://a/#f"]
)
def test_other_urls_are_refused(url: str):
    with pytest.raises(Invalid):
        checked_url(url, "--auth-issuer")


def test_loopback_issuers_may_be_plain_http():
    assert checked_url("http://127.0.0.1:8000/x", "--auth-issuer").port == 8000
    assert is_loopback_url("http://[::1]:1")
    assert not is_loopback_url("http://127.0.0.1.example")


def test_a_session_ends_with_its_credential_and_keeps_the_principal():
    session = new_session(ADA, "id", "token", 0)
    assert session.expires_at == 100 * SECOND
    assert session.principal().roles == ADA.roles
    assert session.digest == session_digest("id") != "id"
    assert session.accepts_csrf("token")
    assert not session.accepts_csrf("other")
    assert not session.accepts_csrf(None)
    forever = Principal("ada", "assay_0...", {})
    assert new_session(forever, "id", "token", 5).expires_at == 5 + SESSION_LIFETIME


def test_cookies_are_host_bound_where_the_connection_is_secure():
    assert cookie_name(secure=True, database_id="0123456789abcdef") == "__Host-wf"
    assert cookie_name(secure=False, database_id="0123456789abcdef") == "wf_01234567"
    assert set_cookie("__Host-wf", "x", secure=True, max_age=5) == (
        "__Host-wf=x; Max-Age=5; Path=/; HttpOnly; SameSite=Lax; Secure"
    )
    assert read_cookies("a=1; wf_01234567=abc") == {"a": "1", "wf_01234567": "abc"}
    assert read_cookies("odd[name]=1; a=2; a=3; wf_01234567=abc") == {"odd[name]": "1", "a": "2", "wf_01234567": "abc"}
    assert read_cookies(None) == {}
    assert read_cookies("x; y") == {}
