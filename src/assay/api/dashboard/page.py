"""The page of the dashboard: its HTML with the white label written in, its policy, and links that fit any mount."""

import re
from html import escape
from typing import Final

import msgspec

from assay.api.answers import COMMON_HEADERS, Header, HttpResponse
from assay.api.dashboard.assets import Assets
from assay.api.dashboard.whitelabel import WhiteLabel
from assay.api.docs import HTML

API: Final = "../api/v1/engine/workflow"
"""The API, as seen from the base of the dashboard."""
VIEWS: Final = re.compile(
    rb"/workflow/(?:|(?:failures|schedules|workers|queues|batches)(?:/[^/]+)?|workflows/[^/]+|settings|login)"
)
ASSETS: Final = b"/workflow/assets/"
POLICY: Final = b"content-security-policy"

PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<meta name="assay-config" content="{config}">
<link rel="icon" href="{favicon}">
{head}
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<div class="frame" id="frame">
<nav class="sidebar" id="sidebar" aria-label="Main">
<div class="brand">
<span class="brand-mark" aria-hidden="true">{mark}</span>
{logo}<span class="brand-text"><span class="brand-name">{name}</span>{subtitle}</span>
</div>
<div class="sidebar-views" id="sidebar-views"></div>
<div class="sidebar-end" id="sidebar-end">{docs}{back}</div>
</nav>
<div class="stage" id="stage">{body}</div>
</div>
</body>
</html>
"""
NOT_BUILT: Final = """<main id="content" class="missing">
<h1>The dashboard is not installed</h1>
<p>This installation was built without it. In the repository of assay run <code>make dashboard</code> (it needs Node.js
20, or a package index to take it from); a released package contains it.</p>
<p>All else is served: <a href="{api}/docs">API docs</a>, and <code>assay workflow list</code> on the command line.</p>
</main>"""
NO_SCRIPT: Final = '<noscript><p class="missing">The dashboard needs JavaScript.</p></noscript>'
FAVICON: Final = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#3b5bdb"/>'
    b'<path d="M16 6.5 25 25.5h-4.3l-1.6-3.7h-6.2l-1.6 3.7H7zm0 8.1-1.9 4.2h3.8z" fill="#fff"/></svg>'
)


def is_view(path: bytes) -> bool:
    """Return whether a path is the address of a view."""
    return VIEWS.fullmatch(path) is not None


def page(path: bytes, label: WhiteLabel, assets: Assets | None, status: int = 200) -> HttpResponse:
    """Return the page for a path below the base. Links are relative, so that any proxy may mount the engine."""
    root = "../" * (path.count(b"/") - 2)
    html = PAGE.format(
        title=escape(label.page_title),
        config=escape(_config(label)),
        favicon=escape(label.favicon_url or f"{root}favicon.svg"),
        head=_head(root, label, assets),
        mark=escape(label.mark),
        logo=f'<img class="brand-logo" src="{escape(label.logo_url)}" alt="">\n' if label.logo_url else "",
        name=escape(label.name),
        subtitle=f'<span class="brand-subtitle">{escape(label.subtitle)}</span>' if label.subtitle else "",
        docs=_docs(root, label),
        back=_back(label),
        body=NO_SCRIPT if assets is not None else NOT_BUILT.format(api=f"{root}{API}"),
    )
    return HttpResponse(status, html.encode("utf-8", "replace"), (HTML, policy(label)))


def _config(label: WhiteLabel) -> str:
    """Return the values that the application reads from the page."""
    shown = {
        "name": label.name,
        "page_title": label.page_title,
        "default_namespace": label.default_namespace,
        "customised": label.is_customised,
    }
    return msgspec.json.encode(shown).decode()


def _head(root: str, label: WhiteLabel, assets: Assets | None) -> str:
    """Return scripts and sheets; the sheet of the deployment is last, so that its rules win."""
    lines: list[str] = []
    if assets is not None:
        names, version = assets.manifest, assets.version
        lines = [
            f'<script src="{root}assets/{names.theme}?v={version}"></script>',
            f'<link rel="stylesheet" href="{root}assets/{names.style}?v={version}">',
            f'<script type="module" src="{root}assets/{names.entry}?v={version}"></script>',
        ]
    if label.css_url:
        stamp = "none" if assets is None else assets.version
        address, mark, fragment = label.css_url.partition("#")
        versioned = f"{address}{'&' if '?' in address else '?'}v={stamp}{mark}{fragment}"
        lines.append(f'<link rel="stylesheet" href="{escape(versioned)}">')
    return "\n".join(lines)


def _docs(root: str, label: WhiteLabel) -> str:
    url = f"{root}{API}/docs" if label.api_docs_url is None else label.api_docs_url
    return f'<a class="sidebar-link" id="api-docs" href="{escape(url)}">API Docs</a>' if url else ""


def _back(label: WhiteLabel) -> str:
    if not label.parent_url:
        return ""
    return f'<a class="sidebar-link" id="back-link" href="{escape(label.parent_url)}">{escape(label.parent_name)}</a>'


def policy(label: WhiteLabel) -> Header:
    """Return the content security policy: the engine's own, with the origins that the white label names."""
    common = dict(COMMON_HEADERS)[POLICY].decode()
    for directive, origins in (
        ("img-src", label.image_origins()),
        ("style-src", label.style_origins()),
        ("font-src", label.style_origins()),
    ):
        if origins:
            common = common.replace(f"{directive} 'self'", f"{directive} 'self' {' '.join(origins)}")
    if label.frame_ancestors:
        common = common.replace("frame-ancestors 'none'", f"frame-ancestors {' '.join(label.frame_ancestors)}")
    return POLICY, common.encode()
