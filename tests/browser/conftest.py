from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.site import Site


@pytest.fixture
def page(open_site: Site) -> Iterator[Page]:
    """A page of a fresh browser at an engine without authentication."""
    with open_site.visitor() as visitor:
        yield visitor.new_page()
