from pathlib import Path

import pytest

from assay.core.model.errors import Invalid
from assay.storage.urls import PostgresUrl, SqliteUrl, parse_url


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite://w.db", "w.db"),
        ("sqlite:///var/lib/w.db", "/var/lib/w.db"),
        ("sqlite://data/w.db", "data/w.db"),
        ("SQLite://w.db", "w.db"),
        ("sqlite:w.db", "w.db"),
        ("w.db", "w.db"),
        ("./w.db", "w.db"),
        ("/var/w.db", "/var/w.db"),
        ("sqlite:///var/w.db?mode=rwc&x=1", "/var/w.db"),
        ("sqlite://a%20b.db", "a b.db"),
        (" w.db ", "w.db"),
    ],
)
def test_a_file(url: str, path: str):
    assert parse_url(url) == SqliteUrl(Path(path))


@pytest.mark.parametrize(
    "url",
    [
        "postgres://user:secret@host:5432/app?sslmode=require",
        "postgresql://host/app",
        "postgresql:///app?host=/tmp",
        "postgresql://?dbname=app&host=/tmp",
    ],
)
def test_a_server(url: str):
    assert parse_url(url) == PostgresUrl(url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "names no file"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite://folder/", "names no file"),
        ("sqlite://:memory:", "needs a file"),
        ("mysql://host/app", "mysql is neither sqlite nor postgres"),
        ("http://localhost:8080", "http is neither"),
        ("postgres://host", "names no database"),
        ("postgres://host:port/app", "Port"),
    ],
)
def test_no_database(url: str, message: str):
    with pytest.raises(Invalid, match=message) as caught:
        parse_url(url)
    assert caught.value.code == "bad_url"
    assert "sqlite://app.db" in str(caught.value)


def test_a_password_is_not_repeated():
    with pytest.raises(Invalid) as caught:
        parse_url("postgres://user:secret@host:99999/app")
    assert "secret" not in str(caught.value)
