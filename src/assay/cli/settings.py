"""The settings of a command: engine URL, API key, namespace and output format.

A flag has precedence over the environment, the environment over the config file, the config file over the default.
"""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from assay.cli.command_errors import CommandError
from assay.core.model.errors import Invalid
from assay.sdk.client.config_file import (
    DEFAULT_ENGINE_URL,
    config_path,
    key_of_config,
    read_config,
    reason_of,
    text_of,
)

NAMESPACE: Final = "main"
FORMATS: Final = ("table", "json", "jsonl", "yaml")


class CliSettings(NamedTuple):
    """The settings of a command."""

    engine_url: str
    api_key: str | None
    namespace: str
    output: str


def resolve(flags: Mapping[str, str], environment: Mapping[str, str], *, terminal: bool) -> CliSettings:
    """Return the settings of a command.

    Args:
        flags: The given global options.
        environment: The environment variables.
        terminal: Whether standard output is a terminal.
    """
    config = _config(flags, environment)

    def setting(name: str, default: str) -> str:
        return flags.get(name) or environment.get(f"ASSAY_{name.upper()}") or config.get(name) or default

    engine_url = _engine_url(setting("engine_url", DEFAULT_ENGINE_URL))
    return CliSettings(
        engine_url=engine_url,
        api_key=_api_key(flags, environment, config, engine_url),
        namespace=setting("namespace", NAMESPACE),
        output=_output(setting("output", "table" if terminal else "json")),
    )


def _config(flags: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    file = config_path(environment, flags.get("config"))
    try:
        return {} if file is None else read_config(file)
    except Invalid as error:
        raise CommandError(str(error)) from None


def _api_key(
    flags: Mapping[str, str], environment: Mapping[str, str], config: Mapping[str, str], url: str
) -> str | None:
    """Return the API key. Within the environment and the config file, a key file has precedence over a key.

    The keys of the config file go only to the engine of the config file.
    """
    if flags.get("api_key"):
        return plain_key(flags["api_key"])
    named = environment.get("ASSAY_API_KEY_FILE"), environment.get("ASSAY_API_KEY")
    for file, key in (named, (None, None) if names_file(url) else key_of_config(config, url)):
        if file:
            return plain_key(_key_in(file))
        if key:
            return plain_key(key)
    return None


def _key_in(file: str) -> str:
    try:
        return text_of(file)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"API key file {file} cannot be read: {reason_of(error)}") from None


def plain_key(key: str) -> str | None:
    """Return a key without blanks around it; raise for a key that cannot be sent."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise CommandError("the API key has characters that cannot be sent")
    return key or None


def names_file(url: str) -> bool:
    """Return whether a URL is of a SQLite file, which is read in this process without an engine."""
    return url.lower().startswith("sqlite://")


def _engine_url(url: str) -> str:
    return url if names_file(url) else checked_url(url)


def checked_url(url: str) -> str:
    """Return the URL of an engine without trailing slashes; raise for a URL without `http://` or `https://`."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise CommandError(f"engine URL '{url}' must be like http://host:8080, https://host or sqlite://app.db")
    return url.rstrip("/")


def _output(name: str) -> str:
    found = {"yml": "yaml"}.get(name.lower(), name.lower())
    if found not in FORMATS:
        raise CommandError(f"unknown output format '{name}': choose table, json, jsonl or yaml")
    return found


def of_this_process(flags: Mapping[str, str], *, terminal: bool) -> CliSettings:
    """Return the settings of a command, with the environment of this process."""
    return resolve(flags, os.environ, terminal=terminal)
