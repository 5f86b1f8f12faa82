"""Tokens are sealed by a HMAC that is prepared in advance; it must be the HMAC of the standard library."""

import base64
import hmac

import pytest

from assay.core.model.ids import Namespace, RunId
from assay.worker_protocol.tokens import Lease, Tokens


@pytest.mark.parametrize("length", [0, 32, 64, 65, 200])
def test_the_seal_is_the_hmac_of_the_standard_library(length: int):
    key = bytes(index % 251 for index in range(length))
    lease = Lease(Namespace("main"), RunId("run-1"), 7, 3, "worker-1", activity=True)
    token = Tokens(key).seal(lease)
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    content, seal = raw[:-32], raw[-32:]
    assert seal == hmac.digest(key, content, "sha256")
    assert Tokens(key).open(token) == lease
