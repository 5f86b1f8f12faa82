"""The settings of a command: engine URL, API key, namespace and output format.

A flag has precedence over the environment, the environment over the config file, the config file over the default.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from assay.cli.command_errors import CommandError

ENGINE_URL: Final = "http://127.0.0.1:8080"
NAMESPACE: Final = "main"
FORMATS: Final = ("table", "json", "jsonl", "yaml")
KEYS: Final = ("engine_url", "api_key", "api_key_file", "namespace", "output")
"""The keys of a config file."""


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
    file = _config_file(flags, environment)
    config = {} if file is None else _read(file)

    def setting(name: str, default: str) -> str:
        return flags.get(name) or environment.get(f"ASSAY_{name.upper()}") or config.get(name) or default

    return CliSettings(
        engine_url=_engine_url(setting("engine_url", ENGINE_URL)),
        api_key=api_key(flags, environment, config),
        namespace=setting("namespace", NAMESPACE),
        output=_output(setting("output", "table" if terminal else "json")),
    )


def _config_file(flags: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Return the config file of a flag or variable, or the first existing file of the usual places, or None."""
    named = flags.get("config") or environment.get("ASSAY_CONFIG_FILE")
    if named:
        return named
    folders = [environment.get("XDG_CONFIG_HOME"), _below(environment.get("HOME"), ".config"), "/etc"]
    places = [f"{folder}/assay/config.yaml" for folder in folders if folder]
    return next((place for place in places if os.path.isfile(place)), None)


def _below(folder: str | None, name: str) -> str | None:
    return f"{folder}/{name}" if folder else None


def _read(file: str) -> dict[str, str]:
    import yaml  # imported for config files only: other calls start faster

    try:
        content: Any = yaml.safe_load(_text_of(file))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"config file {file} cannot be read: {_reason(error)}") from None
    except yaml.YAMLError as error:
        raise CommandError(f"config file {file} is not YAML: {_problem(error)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise CommandError(f"config file {file} must hold `key: value` lines")
    return _checked(file, content)


def _problem(error: Any) -> str:
    """Return the message of a YAML error on a single line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"{error.problem} in line {mark.line + 1}, column {mark.column + 1}"


def _checked(file: str, content: dict[Any, Any]) -> dict[str, str]:
    unknown = [str(key) for key in content if key not in KEYS]
    if unknown:
        raise CommandError(f"config file {file}: unknown key {', '.join(unknown)}; known keys: {', '.join(KEYS)}")
    given = {key: value for key, value in content.items() if value is not None}
    for key, value in given.items():
        if not isinstance(value, str):
            raise CommandError(f"config file {file}: {key} must be a text; put it in quotes")
    return given


def api_key(
    flags: Mapping[str, str], environment: Mapping[str, str], config: Mapping[str, str] = MappingProxyType({})
) -> str | None:
    """Return the API key. Within the environment and the config file, a key file has precedence over a key."""
    if flags.get("api_key"):
        return _plain(flags["api_key"])
    for file, key in (
        (environment.get("ASSAY_API_KEY_FILE"), environment.get("ASSAY_API_KEY")),
        (config.get("api_key_file"), config.get("api_key")),
    ):
        if file:
            return _plain(_key_in(file))
        if key:
            return _plain(key)
    return None


def _key_in(file: str) -> str:
    try:
        return _text_of(file)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"API key file {file} cannot be read: {_reason(error)}") from None


def _plain(key: str) -> str | None:
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


def _text_of(file: str) -> str:
    with open(os.path.expanduser(file), encoding="utf-8") as opened:
        return opened.read()


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def of_this_process(flags: Mapping[str, str], *, terminal: bool) -> CliSettings:
    """Return the settings of a command, with the environment of this process."""
    return resolve(flags, os.environ, terminal=terminal)
