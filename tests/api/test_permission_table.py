"""The page of permissions is that of the routes."""

from pathlib import Path

from assay.api.permission_table import page
from assay.api.routes.table import ROUTES

PAGE = Path(__file__).parents[2] / "docs/reference/permissions.md"


def test_the_page_is_made_from_the_routes():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_route_is_on_the_page():
    text = page()
    assert [route.operation_id for route in ROUTES if f"`{route.operation_id}`" not in text] == []
