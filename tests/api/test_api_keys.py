"""API keys over HTTP: the first key, their fields, rotation and revocation."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.api.support import Http, Reply, Server, serving, until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, "--auth-api-key") as server:
        yield server


def call(http: Http, method: str, path: str, key: str | None, body: Any = None) -> Reply:
    return http.send(method, path, body, **({} if key is None else {"Authorization": f"Bearer {key}"}))


def test_the_life_of_keys(server: Server):
    http = server.http()
    assert http.get("/session").json() == {
        "authenticated": False,
        "user": None,
        "roles": {},
        "csrf": None,
        "auth": "api-key",
        "sign_in": {"api_key": True, "oidc": None, "bootstrap": True},
        "features": ["batches", "failures", "audit"],
    }

    # Of many that make the first key at once, one succeeds.
    proxied = http.post("/api-keys", {"label": "far"}, X_Forwarded_For="203.0.113.7")
    assert proxied.status == 401
    assert "--generate-api-key" in proxied.json()["error"]
    with ThreadPoolExecutor(8) as threads:
        first = list(
            threads.map(lambda n: server.http().post("/api-keys", {"label": f"k{n}", "role": "reader"}), range(8))
        )
    assert sorted(reply.status for reply in first) == [201, *[401] * 7]
    made = next(reply.json() for reply in first if reply.status == 201)
    assert (made["role"], made["namespaces"]) == ("admin", ["*"])
    admin = made["plaintext"]
    assert http.get("/session").json()["sign_in"]["bootstrap"] is False

    # A key is shown once.
    listed = call(http, "GET", "/api-keys", admin)
    assert listed.headers["x-total-count"] == "1"
    assert "plaintext" not in listed.json()[0]
    until(lambda: call(http, "GET", "/api-keys", admin).json()[0]["last_used_at"] is not None)

    # One key for each label, if the caller likes.
    worker = call(http, "POST", "/api-keys", admin, {"label": "ci", "role": "worker", "idempotent": True})
    again = call(http, "POST", "/api-keys", admin, {"label": "ci", "role": "worker", "idempotent": True})
    assert (worker.status, again.status) == (201, 200)
    assert again.json()["prefix"] == worker.json()["prefix"]
    assert "plaintext" not in again.json()

    # A rotated key is accepted beside its successor, and without an overlap no longer.
    old = worker.json()
    assert call(http, "GET", "/session", old["plaintext"]).json()["roles"] == {"*": "worker"}
    new = call(http, "POST", f"/api-keys/{old['prefix'].removesuffix('...')}/rotate", admin, {"overlap_secs": 0})
    assert new.status == 201
    assert (new.json()["label"], new.json()["role"]) == ("ci", "worker")
    assert call(http, "GET", "/session", new.json()["plaintext"]).status == 200
    refused = call(http, "GET", "/session", old["plaintext"])
    assert (refused.status, refused.json()["error"]) == (401, "Invalid API key")

    # A revoked key is refused, and is still listed on demand.
    assert call(http, "DELETE", f"/api-keys/{new.json()['prefix']}", admin).status == 204
    assert call(http, "DELETE", f"/api-keys/{new.json()['prefix']}", admin).status == 404
    assert call(http, "GET", "/session", new.json()["plaintext"]).status == 401
    shown = {key["prefix"]: key for key in call(http, "GET", "/api-keys?revoked=true", admin).json()}
    assert shown[new.json()["prefix"]]["revoked_at"] is not None
    assert new.json()["prefix"] not in {key["prefix"] for key in call(http, "GET", "/api-keys", admin).json()}

    # An admin of one namespace manages the keys of that namespace.
    shop = call(http, "POST", "/api-keys", admin, {"role": "admin", "namespaces": ["shop"]}).json()["plaintext"]
    own = call(http, "POST", "/api-keys", shop, {"role": "reader"})
    assert (own.status, own.json()["namespaces"]) == (201, ["shop"])
    assert call(http, "POST", "/api-keys", shop, {"namespaces": ["other"]}).status == 404
    assert call(http, "POST", "/api-keys", shop, {"namespaces": ["*"]}).status == 403
    assert {key["namespaces"][0] for key in call(http, "GET", "/api-keys", shop).json()} == {"shop"}
    assert call(http, "DELETE", f"/api-keys/{made['prefix']}", shop).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"role": "root"},
        {"namespaces": []},
        {"namespaces": ["*", "shop"]},
        {"queues": []},
        {"expires_at": 5},
        {"expires_at": 1e300},
        {"expires_at": 1e14},
        {"namespaces": ["no such name!"]},
        {"queues": [""]},
        {"label": "a\nb"},
    ],
)
def test_other_fields_are_refused(keyed: tuple[Http, str], body: dict[str, Any]):
    http, admin = keyed
    assert call(http, "POST", "/api-keys", admin, body).status == 400


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Http, str]]:
    with serving(tmp_path_factory.mktemp("keyed"), "--auth-api-key") as server:
        http = server.http()
        yield http, http.post("/api-keys", {}).json()["plaintext"]


def test_a_key_ends(keyed: tuple[Http, str]):
    http, admin = keyed
    now = call(http, "POST", "/api-keys", admin, {}).json()["created_at"]
    short = call(http, "POST", "/api-keys", admin, {"expires_at": now + 2}).json()["plaintext"]
    assert call(http, "GET", "/workflows", short).status == 200
    until(lambda: call(http, "GET", "/workflows", short).status == 401)


def test_many_wrong_keys_are_slowed_down_and_right_ones_are_not(server: Server):
    http = server.http()
    admin = http.post("/api-keys", {}).json()["plaintext"]
    wrong = "no-key-at-all"  # refused without a look at the stored keys, and so without a wait
    assert [call(http, "GET", "/workflows", wrong).status for _ in range(300)] == [401] * 300
    until(lambda: call(http, "GET", "/workflows", wrong).status == 429)
    assert call(http, "GET", "/workflows", admin).status == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_read_in_any_case(keyed: tuple[Http, str], scheme: str):
    http, admin = keyed
    assert http.get("/workflows", Authorization=f"{scheme} {admin}").status == 200


def test_a_token_is_never_tried_as_a_key(keyed: tuple[Http, str]):
    http, _ = keyed
    reply = http.get("/workflows", Authorization="Bearer eyJhbGciOiJub25lIn0.e30.")
    assert (reply.status, reply.json()["error"]) == (401, "JWT authentication is not enabled on this server")
