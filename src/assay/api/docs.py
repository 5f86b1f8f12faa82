"""The page on which the API can be read and tried, without requests to other hosts.

The viewer is Scalar's, a single file that the build places into `viewer/`; it is not part of the repository.
"""

from functools import cache
from html import escape
from importlib import resources
from typing import Final

from assay.api.answers import Header, HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.core.model.errors import NotFound

VIEWER: Final = "standalone.js"
HTML: Final[Header] = (b"content-type", b"text/html; charset=utf-8")
SCRIPT: Final[Header] = (b"content-type", b"text/javascript; charset=utf-8")
POLICY: Final[Header] = (
    b"content-security-policy",
    # The viewer writes its own styles into the page.
    b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:;"
    b" font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; form-action 'self'; base-uri 'none';"
    b" frame-ancestors 'none'",
)
SETTINGS: Final = (
    '{"withDefaultFonts":false,"telemetry":false,"agent":{"disabled":true},"mcp":{"disabled":true},'
    '"hideClientButton":true,"showDeveloperTools":"never"}'
)

DOCS_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>assay API</title>
</head>
<body>
{body}
</body>
</html>
"""
READER: Final = """<script id="api-reference" data-url="openapi.json" data-configuration="{settings}"></script>
<script src="docs/standalone.js"></script>"""
MISSING: Final = """<h1>assay API</h1>
<p>The viewer is not installed. Run <code>make dashboard</code> in the repository of assay (it needs npm once),
or open <a href="openapi.json">openapi.json</a> with a viewer of your own.</p>"""


async def page(_: Backend, __: ApiCall) -> HttpResponse:
    """Return the page on which the API can be read and tried."""
    body = READER.format(settings=escape(SETTINGS)) if _viewer() is not None else MISSING
    return HttpResponse(200, DOCS_PAGE.format(body=body).encode(), (HTML, POLICY))


async def part(_: Backend, call: ApiCall) -> HttpResponse:
    """Return a file of the viewer."""
    viewer = _viewer() if call.parameters["file"] == VIEWER else None
    if viewer is None:
        raise NotFound(f"file {call.parameters['file']}")
    return HttpResponse(200, viewer, (SCRIPT, (b"cache-control", b"public, max-age=86400")))


@cache
def _viewer() -> bytes | None:
    file = resources.files("assay.api").joinpath("viewer", VIEWER)
    return file.read_bytes() if file.is_file() else None
