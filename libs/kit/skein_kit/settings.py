"""Settings: frozen dataclasses read once from `SKEIN_*` variables, before any socket opens."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "SKEIN_"
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off", ""})


class SettingInvalid(Exception):
    """A setting cannot be used."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of a service's settings: the field `pool_size` is the variable SKEIN_POOL_SIZE.

    A field of type str may also come from the file named by SKEIN_<FIELD>_FILE, which is how secrets are given.
    """

    prefix: ClassVar[str] = PREFIX

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Read every field, or raise SettingInvalid naming the variable and what it should be."""
        values = os.environ if environment is None else environment
        hints = typing.get_type_hints(cls)
        found: dict[str, object] = {}
        for field in dataclasses.fields(cls):
            name = f"{cls.prefix}{field.name.upper()}"
            text = _text(values, name)
            if text is not None:
                found[field.name] = _parse(name, text, hints[field.name])
        return cls(**found)


def _text(values: Mapping[str, str], name: str) -> str | None:
    if name in values:
        return values[name]
    path = values.get(f"{name}_FILE")
    if path is None:
        return None
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError as error:
        message = f"{name}_FILE names a file that cannot be read: {error.strerror}."
        raise SettingInvalid(message) from None


def _parse(name: str, text: str, kind: object) -> object:
    if isinstance(kind, types.UnionType):
        if not text:
            return None
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    try:
        if kind is bool:
            return _boolean(text)
        if kind is Path:
            return Path(text).expanduser()
        if kind in (int, float, str):
            return typing.cast("type[int]", kind)(text)
    except ValueError:
        message = f"{name} should be {_NAMES[kind]}, not {text!r}."
        raise SettingInvalid(message) from None
    message = f"{name} has a type that cannot be read: {kind}."
    raise TypeError(message)


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(text)


_NAMES: Mapping[object, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def default_data_dir() -> Path:
    """Return where `skein up` keeps its data unless SKEIN_DATA_DIR says otherwise."""
    base = os.environ.get("XDG_DATA_HOME")
    if base:
        return Path(base) / "skein"
    try:
        return Path.home() / ".local" / "share" / "skein"
    except RuntimeError:  # No home folder: containers with an unknown user.
        return Path(tempfile.gettempdir()) / "skein"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessSettings(Settings):
    """What every Skein process is told."""

    # Postgres, as a URL. A user other than the service's own role acts as that role.
    database_url: str = dataclasses.field(default="", repr=False)
    # Connections that one service keeps at most.
    pool_size: int = 10
    # Seconds to wait for a free connection before the call is refused.
    pool_timeout_seconds: float = 5.0
    # Address that internal services bind to.
    host: str = "127.0.0.1"
    # What auth seals its signing keys with and the worker proves itself with; at least 32 characters.
    system_key: str = dataclasses.field(default="", repr=False)
    # Certificates (PEM) that vouch for services called over TLS; unset: those that the machine trusts.
    ca_file: Path | None = None
    # Port of /metrics, /livez and /readyz; 0 takes a free one.
    admin_port: int = 9450
    # Time that a call gets when its caller set no deadline.
    default_deadline_seconds: float = 30.0
    # The most time that a call gets, whatever its caller set.
    max_deadline_seconds: float = 300.0
    # A stream ends after so many seconds, well, and its caller resumes it.
    max_stream_seconds: float = 3600.0
    # Streams that one tenant may have open in one service of a process.
    max_streams_per_tenant: int = 100
    # Seconds after which it is asked again whether a stream's caller is still welcome.
    stream_recheck_seconds: float = 5.0
    # Seconds between saying "not ready" and refusing new calls.
    drain_seconds: float = 0.0
    # Seconds that calls in flight get to finish.
    grace_seconds: float = 10.0
    # OTLP/gRPC endpoint for traces, e.g. http://127.0.0.1:4317; empty turns tracing off.
    otlp_endpoint: str = ""
    # Share of new traces that is recorded.
    trace_ratio: float = 1.0
    # debug, info, warning or error.
    log_level: str = "info"
