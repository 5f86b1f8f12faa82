"""Start the provider of this folder, with its packages from npm."""

import base64
import fcntl
import hashlib
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.browser.node import environment, node, npm

FOLDER = Path(__file__).parent
PROGRAM = "program"
PROGRAM_SECRET = "program-secret"  # noqa: S105


class Provider:
    """A provider that runs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def access_token(self) -> str:
        """A token of a program, for the audience `assay`."""
        pair = base64.b64encode(f"{PROGRAM}:{PROGRAM_SECRET}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310
            f"{self.url}/token",
            urlencode({"grant_type": "client_credentials"}).encode(),
            {"Authorization": f"Basic {pair}"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return str(json.load(answer)["access_token"])

    def rotate(self) -> None:
        """Replace the signing key."""
        with urllib.request.urlopen(f"{self.url}/test/rotate", timeout=10) as answer:  # noqa: S310
            assert answer.read() == b"rotated"


def installed() -> None:
    """Install the packages of the lock file, once for all test processes."""
    stamp = FOLDER / "node_modules/.installed"
    with (FOLDER / "package-lock.json").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        locked = hashlib.sha256(lock.read()).hexdigest()
        if stamp.exists() and stamp.read_text() == locked:
            return
        command = [*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False)  # noqa: S603
        assert done.returncode == 0, f"npm could not install the provider: {done.stderr}"
        stamp.write_text(locked)


@contextmanager
def running(redirect_uri: str, log: Path, **settings: Any) -> Iterator[Provider]:
    """A provider whose client `engine` may send browsers back to `redirect_uri`."""
    installed()
    clients = [
        {"client_id": "engine", "client_secret": "engine secret+%", "redirect_uris": [redirect_uri]},
        {"client_id": "public", "token_endpoint_auth_method": "none", "redirect_uris": [redirect_uri]},
        {
            "client_id": PROGRAM,
            "client_secret": PROGRAM_SECRET,
            "grant_types": ["client_credentials"],
            "redirect_uris": [],
            "response_types": [],
        },
    ]
    common = {"host": "localhost", "clients": clients, "roles": ["admin"], "id_token_claims": ["roles"], "ttl": {}}
    chosen = {**common, **settings}
    with (
        log.open("wb") as errors,
        subprocess.Popen(  # noqa: S603
            [*node(), "provider.mjs"],
            cwd=FOLDER,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(chosen) + "\n")
            process.stdin.flush()
            port = process.stdout.readline().strip()
            assert port, log.read_text()
            yield Provider(f"http://{chosen['host']}:{port}")
        finally:
            process.kill()
