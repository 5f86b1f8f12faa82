"""The config file of programs and commands: the URL of an engine, a key, and defaults of the command line.

Imports are kept few, because imports are most of the cost of a command.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from assay.core.model.errors import Invalid

DEFAULT_ENGINE_URL: Final = "http://127.0.0.1:8080"
CONFIG_KEYS: Final = ("engine_url", "api_key", "api_key_file", "namespace", "output")


def config_path(environment: Mapping[str, str], named: str | None = None) -> str | None:
    """Return the config file that a caller or a variable names, or the first file of the usual places, or None."""
    given = named or environment.get("ASSAY_CONFIG_FILE")
    if given:
        return given
    folders = [environment.get("XDG_CONFIG_HOME"), _below(environment.get("HOME"), ".config"), "/etc"]
    places = [f"{folder}/assay/config.yaml" for folder in folders if folder]
    return next((place for place in places if os.path.isfile(place)), None)


def read_config(file: str) -> dict[str, str]:
    """Return the settings of a config file.

    Raises:
        Invalid: The file cannot be read, or has another form.
    """
    import yaml  # imported for config files only: other calls start faster

    try:
        content: Any = yaml.safe_load(text_of(file))
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"config file {file} cannot be read: {reason_of(error)}", field="config") from None
    except yaml.YAMLError as error:
        raise Invalid(f"config file {file} is not YAML: {_problem(error)}", field="config") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise Invalid(f"config file {file} must hold `key: value` lines", field="config")
    return _checked(file, content)


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL: a key of the config file goes nowhere else."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def key_of_config(config: Mapping[str, str], url: str) -> tuple[str | None, str | None]:
    """Return the key file and the key of a config file, if the engine at `url` is the engine of the config file.

    With several engines in `url`, all of them must be that engine.
    """
    own = origin_of(config.get("engine_url") or DEFAULT_ENGINE_URL)
    if any(origin_of(one.strip()) != own for one in url.split(",")):
        return None, None
    return config.get("api_key_file"), config.get("api_key")


def text_of(file: str) -> str:
    """Return the text of a file."""
    with open(os.path.expanduser(file), encoding="utf-8") as opened:
        return opened.read()


def reason_of(error: Exception) -> str:
    """Return why a file cannot be read."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _below(folder: str | None, name: str) -> str | None:
    return f"{folder}/{name}" if folder else None


def _problem(error: Any) -> str:
    """Return the message of a YAML error on a single line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"{error.problem} in line {mark.line + 1}, column {mark.column + 1}"


def _checked(file: str, content: dict[Any, Any]) -> dict[str, str]:
    unknown = [str(key) for key in content if key not in CONFIG_KEYS]
    if unknown:
        known = ", ".join(CONFIG_KEYS)
        raise Invalid(f"config file {file}: unknown key {', '.join(unknown)}; known keys: {known}", field="config")
    given = {key: value for key, value in content.items() if value is not None}
    for key, value in given.items():
        if not isinstance(value, str):
            raise Invalid(f"config file {file}: {key} must be a text; put it in quotes", field="config")
    return given
