from collections.abc import Iterator

import pytest

from tests.sdk.worker.support import Sent


@pytest.fixture(autouse=True, params=["in this process", "behind a socket"])
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways in which answers reach a worker."""
    Sent.instant = request.param == "in this process"
    yield
    Sent.instant = False
