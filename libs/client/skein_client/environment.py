"""Where the cluster is and which key opens it, by the environment. Reads files, imports no gRPC, opens no socket.

It stands apart so that a short program, such as a hook, starts in a few milliseconds.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

DEFAULT_ENDPOINT = "127.0.0.1:50050"
CREDENTIALS_FILE = "credentials.json"


class NotConfigured(Exception):
    """The endpoint or the key is missing or unusable; the message says which setting to change."""


class Access(NamedTuple):
    """A cluster and a key for it."""

    # "host:port" of gRPC, or "https://host:port".
    endpoint: str
    # The base URL of HTTP; empty when the environment does not say.
    http_endpoint: str
    api_key: str


def read_access(values: Mapping[str, str]) -> Access:
    """Read SKEIN_ENDPOINT, SKEIN_HTTP_ENDPOINT and SKEIN_API_KEY (or SKEIN_API_KEY_FILE).

    Missing values come from the credentials.json in the data folder of `skein up`. Its key is sent to its own
    endpoint only, so that no other cluster sees it. Raises NotConfigured.
    """
    path = data_dir(values) / CREDENTIALS_FILE
    credentials = _read_credentials_file(path)
    endpoint = values.get("SKEIN_ENDPOINT") or credentials.get("endpoint", DEFAULT_ENDPOINT)
    http = values.get("SKEIN_HTTP_ENDPOINT") or credentials.get("http", "")
    is_saved = endpoint == credentials.get("endpoint") and http == credentials.get("http", "")
    api_key = _read_api_key(values)
    if not api_key and is_saved:
        api_key = credentials.get("api_key", "")
    if not api_key:
        message = f"No key for {endpoint}: set SKEIN_API_KEY, or run `skein up`, which writes {path}."
        raise NotConfigured(message)
    http_endpoint = values.get("SKEIN_HTTP_ENDPOINT") or (http if is_saved else "")
    return Access(endpoint, http_endpoint, check_api_key(api_key))


def check_api_key(api_key: str) -> str:
    """Return a key that can be sent. Raises NotConfigured: the transport's own error would not name the key."""
    if not (api_key.isascii() and api_key.isprintable()):
        message = "The API key contains a line break or another character that no key has. Copy the key again."
        raise NotConfigured(message)
    return api_key


def data_dir(environment: Mapping[str, str]) -> Path:
    """Return the data folder of `skein up`."""
    if environment.get("SKEIN_DATA_DIR"):
        return Path(environment["SKEIN_DATA_DIR"]).expanduser()
    if environment.get("XDG_DATA_HOME"):
        return Path(environment["XDG_DATA_HOME"]) / "skein"
    try:
        return Path.home() / ".local" / "share" / "skein"
    except RuntimeError:  # No home folder: containers with an unknown user.
        return Path(tempfile.gettempdir()) / "skein"


def read_ca_file(environment: Mapping[str, str]) -> Path | None:
    """Return the file of SKEIN_CA_FILE; None without one."""
    return Path(environment["SKEIN_CA_FILE"]).expanduser() if environment.get("SKEIN_CA_FILE") else None


def _read_api_key(values: Mapping[str, str]) -> str:
    if values.get("SKEIN_API_KEY"):
        return values["SKEIN_API_KEY"].strip()
    path = values.get("SKEIN_API_KEY_FILE")
    if not path:
        return ""
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError as error:
        message = f"Cannot read the file that SKEIN_API_KEY_FILE names: {error.strerror}."
        raise NotConfigured(message) from None


def _read_credentials_file(path: Path) -> dict[str, str]:
    try:
        values: dict[str, str] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        message = f"Cannot read {path}. Set SKEIN_ENDPOINT and SKEIN_API_KEY instead."
        raise NotConfigured(message) from None
    return values
