"""The page and the files of the dashboard over plain HTTP: addresses, white label, policy and caching."""

import gzip
import re
from html import unescape
from pathlib import Path

import pytest

from assay.api.dashboard.page import page
from assay.api.dashboard.whitelabel import WhiteLabel, white_label
from assay.core.model.errors import Invalid
from tests.api.support import Http, NotStarted, Server, serving

VIEWS = [
    "", "workflows/order-1", "workflows/a%2Fb", "failures", "failures/9c1f", "schedules", "schedules/nightly",
    "workers", "workers/w-1", "queues", "queues/default", "batches", "batches/b-1", "settings", "login",
]  # fmt: skip
LABEL = "ASSAY_WHITELABEL_"


@pytest.mark.parametrize("path", ["/", "/workflow"])
def test_short_addresses_lead_to_the_dashboard(http: Http, path: str):
    answer = http.raw("GET", f"{path}?ns=a")
    assert (answer.status, answer.headers["location"]) == (308, "workflow/?ns=a")


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_its_address(http: Http, view: str):
    answer = http.raw("GET", f"/workflow/{view}?x=1")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert "require-trusted-types-for 'script'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    root = "../" * view.count("/")
    assert f'src="{root}assets/main-' in answer.body.decode()
    assert f'href="{root}../api/v1/engine/workflow/docs"' in answer.body.decode()


@pytest.mark.parametrize("path", ["/workflow/nothing", "/workflow/workflows/a/b/c", "/workflow/workflows/"])
def test_an_unknown_address_is_the_page_with_404(http: Http, path: str):
    answer = http.raw("GET", path)
    assert (answer.status, b'id="stage"' in answer.body) == (404, True)


def test_files_are_kept_by_their_version(http: Http):
    html = http.raw("GET", "/workflow/").body.decode()
    addresses = re.findall(r'(?:src|href)="(assets/[^"]+)"', html)
    assert len(addresses) == 3
    for address in addresses:
        kept = http.raw("GET", f"/workflow/{address}", None, {"Accept-Encoding": "gzip"})
        assert "immutable" in kept.headers["cache-control"]
        plain = http.raw("GET", f"/workflow/{address.partition('?')[0]}")
        assert plain.headers["cache-control"] == "no-cache"
        assert gzip.decompress(kept.body) == plain.body
        again = http.raw("GET", f"/workflow/{address}", None, {"If-None-Match": plain.headers["etag"]})
        assert (again.status, again.body) == (304, b"")


def test_the_version_differs_after_a_restart(http: Http, tmp_path: Path):
    def version(of: Http) -> str:
        found = re.search(r"\?v=([\w.]+)", of.raw("GET", "/workflow/").body.decode())
        assert found is not None
        return found[1]

    with serving(tmp_path) as another:
        assert version(another.http()) != version(http)
    assert version(http) == version(http)


def test_a_missing_file_is_404(http: Http):
    for path in ("/workflow/assets/none.js", "/workflow/assets/../page.py", "/workflow/assets/a/b.js"):
        assert http.raw("GET", path).status == 404
    assert http.raw("POST", "/workflow/settings", b"{}", {"Content-Type": "application/json"}).status == 405


@pytest.mark.parametrize("path", ["/workflow/favicon.svg", "/favicon.ico"])
def test_the_icon(http: Http, path: str):
    assert http.raw("GET", path).headers["content-type"].startswith("image/svg+xml")


def html_of(label: WhiteLabel) -> str:
    return page(b"/workflow/", label, None).body.decode()


def test_unset_values_keep_the_defaults(http: Http):
    html = http.raw("GET", "/workflow/").body.decode()
    assert "<title>Assay Workflow Dashboard</title>" in html
    assert '<span class="brand-name">Assay</span>' in html
    assert '<span class="brand-mark" aria-hidden="true">A</span>' in html
    assert "brand-subtitle" not in html
    assert "brand-logo" not in html
    assert 'id="back-link"' not in html


def test_every_value_is_in_the_page():
    label = white_label(
        {
            f"{LABEL}NAME": "acme Workflows",
            f"{LABEL}SUBTITLE": "Production",
            f"{LABEL}LOGO_URL": "/static/logo.svg",
            f"{LABEL}PAGE_TITLE": "Acme",
            f"{LABEL}PARENT_URL": "/console",
            f"{LABEL}PARENT_NAME": "Acme Console",
            f"{LABEL}API_DOCS_URL": "https://docs.acme.test/api",
            f"{LABEL}CSS_URL": "/static/skin.css?a=1",
            f"{LABEL}FAVICON_URL": "/static/icon.png",
            f"{LABEL}DEFAULT_NAMESPACE": "prod",
        }
    )
    html = html_of(label)
    assert '<span class="brand-mark" aria-hidden="true">A</span>' in html
    assert html.index('src="/static/logo.svg"') < html.index("acme Workflows</span>")
    assert '<span class="brand-subtitle">Production</span>' in html
    assert "<title>Acme</title>" in html
    assert 'href="/console">Acme Console</a>' in html
    assert 'href="https://docs.acme.test/api">API Docs</a>' in html
    assert '<link rel="icon" href="/static/icon.png">' in html
    assert '"default_namespace":"prod"' in unescape(html)
    head = html.partition("</head>")[0].splitlines()
    assert head[-1].startswith('<link rel="stylesheet" href="/static/skin.css?a=1&amp;v=')


def test_an_empty_address_of_the_docs_hides_the_link():
    assert "API Docs" not in html_of(white_label({f"{LABEL}API_DOCS_URL": ""}))


@pytest.mark.parametrize("value", ["<img src=x onerror=alert(1)>", "\"'></script><b>", "a\nb", "x" * 10_240])
@pytest.mark.parametrize("name", ["NAME", "SUBTITLE", "MARK", "PAGE_TITLE", "DEFAULT_NAMESPACE"])
def test_texts_are_escaped(name: str, value: str):
    html = html_of(white_label({f"{LABEL}{name}": value}))
    assert "<img src=x" not in html
    assert "<b>" not in html
    assert value in unescape(unescape(html)) or "\n" in value or '"' in value


@pytest.mark.parametrize(
    "value",
    ["javascript:alert(1)", " javascript:x", "data:text/css,x", "//evil.test/x", "/\\evil.test", "/a\tb", "x.css"],
)
@pytest.mark.parametrize("name", ["LOGO_URL", "PARENT_URL", "API_DOCS_URL", "CSS_URL", "FAVICON_URL"])
def test_other_addresses_are_refused(name: str, value: str):
    with pytest.raises(Invalid, match=f"{LABEL}{name}"):
        white_label({f"{LABEL}{name}": value})


def test_a_refused_address_refuses_the_start(tmp_path: Path):
    with pytest.raises(NotStarted, match="ASSAY_WHITELABEL_CSS_URL must be a path"):
        Server(tmp_path, ASSAY_WHITELABEL_CSS_URL="javascript:alert(1)")


def test_the_policy_names_the_origins_of_the_label():
    label = white_label(
        {
            f"{LABEL}LOGO_URL": "https://cdn.acme.test/logo.svg",
            f"{LABEL}CSS_URL": "https://css.acme.test:8443/skin.css",
            "ASSAY_DASHBOARD_FRAME_ANCESTORS": "https://console.acme.test, http://localhost:3000",
        }
    )
    policy = dict(page(b"/workflow/", label, None).headers)[b"content-security-policy"].decode()
    assert "img-src 'self' https://cdn.acme.test https://css.acme.test:8443 data:" in policy
    assert "style-src 'self' https://css.acme.test:8443;" in policy
    assert "font-src 'self' https://css.acme.test:8443;" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors https://console.acme.test http://localhost:3000;" in policy


@pytest.mark.parametrize("value", ["*", "https://a.test/path", "https://a.test; script-src *", "'none'"])
def test_ancestors_are_origins(value: str):
    with pytest.raises(Invalid, match="FRAME_ANCESTORS"):
        white_label({"ASSAY_DASHBOARD_FRAME_ANCESTORS": value})


@pytest.mark.parametrize("view", VIEWS)
def test_without_built_files_the_page_names_the_remedy(view: str):
    answer = page(f"/workflow/{view}".encode(), WhiteLabel(), None)
    assert (answer.status, b"make dashboard" in answer.body) == (200, True)
