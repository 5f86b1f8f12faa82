"""Sessions and tickets of several engines on one database."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.api.browsers import WITHIN_SECONDS, Browser, Keyed, stream_of
from tests.api.support import Http, serving, until
from tests.temporary_postgres import create_database, temporary_postgres


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Keyed, Http]]:
    with temporary_postgres() as dsn:
        database = asyncio.run(create_database(dsn))
        flags = ("--auth-api-key", "--backend", database)
        with (
            serving(tmp_path_factory.mktemp("one"), *flags) as one,
            serving(tmp_path_factory.mktemp("two"), *flags) as two,
        ):
            yield Keyed(one), two.http()


def moved(browser: Browser, http: Http) -> Browser:
    """The same browser at another engine, as a load balancer sends it there."""
    other = Browser(http)
    other.cookie, other.csrf = browser.cookie, browser.csrf
    return other


def test_a_session_is_known_everywhere_at_once_and_ends_everywhere(engines: tuple[Keyed, Http]):
    keyed, elsewhere = engines
    here = keyed.browser(keyed.make(role="operator")["plaintext"])  # the other engine has not seen its key, either
    there = moved(here, elsewhere)
    assert there.send("GET", "/workflows").status == 200
    assert there.send("POST", "/workflows", {"workflow_type": "Order"}).status == 201
    with stream_of(there) as stream:
        assert stream.status == 200
        assert here.send("DELETE", "/session").status == 204
        until(lambda: there.send("GET", "/workflows").status == 401, WITHIN_SECONDS)
        assert stream.read() == b": connected\n\n"


def test_a_revoked_key_ends_its_sessions_everywhere(engines: tuple[Keyed, Http]):
    keyed, elsewhere = engines
    key = keyed.make(role="reader")
    there = moved(keyed.browser(key["plaintext"]), elsewhere)
    assert there.send("GET", "/workflows").status == 200
    assert keyed.call("DELETE", f"/api-keys/{key['prefix']}").status == 204
    until(lambda: there.send("GET", "/workflows").status == 401, WITHIN_SECONDS)


def test_a_ticket_is_taken_once_by_any_engine(engines: tuple[Keyed, Http]):
    keyed, elsewhere = engines
    here = keyed.browser()
    there = moved(here, elsewhere)
    ticket = here.send("POST", "/sse-ticket", {}).json()["ticket"]
    with stream_of(there, f"?ticket={ticket}", Accept="*/*") as stream:
        assert stream.status == 200
    for engine in (here, there):
        with stream_of(engine, f"?ticket={ticket}", Accept="*/*") as stream:
            assert stream.status == 401
