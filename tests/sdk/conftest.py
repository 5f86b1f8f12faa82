from collections.abc import Iterator

import pytest

from tests.sdk.support import Trial


@pytest.fixture(autouse=True)
def left() -> Iterator[None]:
    """Every coroutine that a test left open is closed when the test ends."""
    yield
    while Trial.begun:
        Trial.begun.pop().crash()
