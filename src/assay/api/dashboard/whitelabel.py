"""The look of the dashboard for one deployment: texts and addresses from the environment, checked at startup."""

import os
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from assay.core.model.errors import Invalid

PREFIX: Final = "ASSAY_WHITELABEL_"
FRAME_ANCESTORS: Final = "ASSAY_DASHBOARD_FRAME_ANCESTORS"
DEFAULT_NAME: Final = "Assay"
_ADDRESS: Final = re.compile(r"(?:/(?![/\\])|https?://(?=[^/\\]))[^\x00-\x20\x7f\\]*", re.IGNORECASE)
"""A path of this host, or an http(s) URL; two slashes, backslashes and control characters could mean another host."""
_ORIGIN: Final = re.compile(r"https?://(?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.IGNORECASE | re.ASCII)


class WhiteLabel(msgspec.Struct, frozen=True, kw_only=True):
    """Texts and addresses that a deployment may replace; the defaults are the product's own."""

    name: str = DEFAULT_NAME
    subtitle: str = ""
    mark: str = "A"
    logo_url: str = ""
    page_title: str = "Assay Workflow Dashboard"
    parent_url: str = ""
    parent_name: str = "Back"
    api_docs_url: str | None = None
    """None for the docs of this engine, an empty text for no link."""
    css_url: str = ""
    favicon_url: str = ""
    default_namespace: str = "main"
    frame_ancestors: tuple[str, ...] = ()
    """Origins whose pages may embed the dashboard."""

    @property
    def is_customised(self) -> bool:
        """Return whether the deployment shows a look of its own."""
        own = self.subtitle or self.logo_url or self.css_url or self.favicon_url
        return bool(own) or self.name != DEFAULT_NAME

    def image_origins(self) -> list[str]:
        """Return the other origins from which the page loads images."""
        return _origins(self.logo_url, self.favicon_url, self.css_url)

    def style_origins(self) -> list[str]:
        """Return the other origins from which the page loads style sheets and their fonts."""
        return _origins(self.css_url)


def white_label(environment: Mapping[str, str] = os.environ) -> WhiteLabel:
    """Return the white label of an environment.

    Raises:
        Invalid: An address is neither a path of this host nor an http(s) URL.
    """

    def text(name: str, default: str = "") -> str:
        return environment.get(PREFIX + name, "") or default

    name = text("NAME", DEFAULT_NAME)
    docs = environment.get(f"{PREFIX}API_DOCS_URL")
    return WhiteLabel(
        name=name,
        subtitle=text("SUBTITLE"),
        mark=text("MARK", name.strip()[:1].upper() or "A"),
        logo_url=_address("LOGO_URL", text("LOGO_URL")),
        page_title=text("PAGE_TITLE", WhiteLabel().page_title),
        parent_url=_address("PARENT_URL", text("PARENT_URL")),
        parent_name=text("PARENT_NAME", "Back"),
        api_docs_url=None if docs is None else _address("API_DOCS_URL", docs),
        css_url=_address("CSS_URL", text("CSS_URL")),
        favicon_url=_address("FAVICON_URL", text("FAVICON_URL")),
        default_namespace=text("DEFAULT_NAMESPACE", "main"),
        frame_ancestors=_ancestors(environment.get(FRAME_ANCESTORS, "")),
    )


def _address(name: str, value: str) -> str:
    if not value:
        return ""
    is_local = value.startswith("/")
    if not _ADDRESS.fullmatch(value) or not (is_local or _origin(value)):
        raise Invalid(
            f"{PREFIX}{name} must be a path that begins with one slash, or an http(s) URL, not {value[:100]!r}",
            code="bad_environment",
            field="environment",
        )
    return value


def _ancestors(value: str) -> tuple[str, ...]:
    origins = tuple(value.replace(",", " ").split())
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise Invalid(
                f"{FRAME_ANCESTORS} must list origins such as https://console.example.com, not {origin[:100]!r}",
                code="bad_environment",
                field="environment",
            )
    return origins


def _origin(url: str) -> str:
    """Return the origin of an http(s) URL, or an empty text if a policy could not name its host."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    origin = f"{parts.scheme}://{parts.netloc}"
    return origin if _ORIGIN.fullmatch(origin) else ""


def _origins(*addresses: str) -> list[str]:
    return list(dict.fromkeys(_origin(address) for address in addresses if address and not address.startswith("/")))
