"""Secrets appear nowhere: canaries in the environment, in URLs, headers and bodies, and the texts of keys."""

import json
from pathlib import Path

from tests.api.support import PREFIX, Http, Server, serving

CANARY = "canary0123456789"


def shown(server: Server, http: Http, key: str) -> str:
    """Everything that others can read of a running engine."""
    found = [server.errors.read_text(), "\n".join(server.greeting)]
    found.append(Path(f"/proc/{server.process.pid}/cmdline").read_bytes().decode())
    headers = {"Authorization": f"Bearer {key}"}
    for path in ("/metrics", "/healthz", "/readyz", "/"):
        found.append(http.raw("GET", path, None, headers).body.decode())
    for path in ("/health", "/version", "/openapi.json", "/docs", "/session", "/api-keys", "/audit", "/namespaces"):
        found.append(http.raw("GET", PREFIX + path, None, headers).body.decode())
    return "\n".join(found)


def provoke(http: Http, key: str) -> list[str]:
    """Requests that fail in many ways, each with a secret in it; the answers."""
    right = {"Authorization": f"Bearer {key}"}
    wrong = {"Authorization": f"Bearer {CANARY}"}
    tries = [
        ("GET", f"{PREFIX}/workflows", None, wrong),
        ("GET", f"{PREFIX}/workflows", None, {"Authorization": f"Basic {CANARY}"}),
        ("GET", f"{PREFIX}/workflows", None, {"Authorization": f"Bearer assay_{CANARY * 4}"}),
        ("GET", f"{PREFIX}/workflows", None, {"Authorization": f"Bearer eyJhbGciOiJub25lIn0.{CANARY}.x"}),
        ("GET", f"{PREFIX}/workflows", None, {"Cookie": f"__Host-wf={CANARY}; wf_00000000={CANARY}"}),
        ("GET", f"{PREFIX}/events/stream?ticket={CANARY}", None, {}),
        ("POST", f"{PREFIX}/session", json.dumps({"api_key": CANARY}).encode(), {"Content-Type": "application/json"}),
        ("POST", f"{PREFIX}/workflows", b"{", {**right, "X-Api-Key": CANARY}),
        ("POST", f"{PREFIX}/workflows", b'{"workflow_type": 5}', {**right, "Cookie": f"a={CANARY}"}),
        ("POST", f"{PREFIX}/nothing", b"{}", {**right, "X-Api-Key": CANARY}),
        ("POST", f"{PREFIX}/api-keys/{CANARY[:8]}/rotate", b"{}", right),
    ]
    answers = [http.raw(method, path, body, headers) for method, path, body, headers in tries]
    assert all(400 <= answer.status < 500 for answer in answers), answers
    return [answer.body.decode() for answer in answers]


def test_canaries_are_nowhere(tmp_path: Path):
    environment = {
        "ASSAY_API_KEY": CANARY,
        "ASSAY_AUTH_CLIENT_SECRET": CANARY,
        "PGPASSWORD": CANARY,
        "AWS_SECRET_ACCESS_KEY": CANARY,
    }
    with serving(tmp_path, "--auth-api-key", "--verbose", **environment) as server:
        http = server.http()
        key = http.post("/api-keys", {"label": "root"}).json()["plaintext"]
        answers = provoke(http, key)
        assert CANARY not in "\n".join(answers).replace(f"assay_{CANARY[:8]}", "")
        everything = shown(server, http, key)
        assert CANARY not in everything
        assert key not in everything


def test_keys_are_stored_as_digests_only(tmp_path: Path):
    """Neither the table nor kept answers, the audit or the write-ahead log have the text of a key."""
    with serving(tmp_path, "--auth-api-key") as server:
        http = server.http()
        first = http.post("/api-keys", {}).json()["plaintext"]
        texts = [first]
        for name in ("one", "two"):
            headers = {"Authorization": f"Bearer {first}", "Idempotency_Key": name}
            made = http.post("/api-keys", {"label": name}, **headers)
            again = http.post("/api-keys", {"label": name}, **headers)
            assert (made.status, again.status, again.headers["idempotent-replay"]) == (201, 200, "true")
            assert "plaintext" not in again.json()
            assert again.json()["prefix"] == made.json()["prefix"]
            rotate = {"Authorization": f"Bearer {first}", "Idempotency_Key": f"{name} rotated"}
            rotated = http.post(f"/api-keys/{made.json()['prefix']}/rotate", {}, **rotate)
            repeated = http.post(f"/api-keys/{made.json()['prefix']}/rotate", {}, **rotate)
            assert (rotated.status, repeated.status) == (201, 200)
            assert "plaintext" not in repeated.json()
            texts += [made.json()["plaintext"], rotated.json()["plaintext"]]
        assert len(http.get("/api-keys", Authorization=f"Bearer {first}").json()) == 5
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("assay-workflow.db*"))
        for text in texts:
            assert text.encode() not in stored
            assert text.removeprefix("assay_").encode() not in stored
            assert text[:14].encode() in stored  # the prefix: the right file was read
