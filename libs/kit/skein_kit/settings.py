"""Settings: frozen dataclasses read once from `SKEIN_*` variables, before any socket opens."""

from __future__ import annotations

import dataclasses
import math
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
LAST_PORT = 65535
# A time limit of 0 would close every connection.
_POSITIVE_SETTINGS = (
    "http_header_seconds",
    "request_body_seconds",
    "http_idle_seconds",
    "http_stalled_seconds",
    "grpc_handshake_seconds",
    "grpc_idle_seconds",
)
_LOG_LEVELS = ("debug", "info", "warning", "error")


class SettingInvalid(Exception):
    """A setting cannot be used."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of a service's settings: the field `pool_size` is the variable SKEIN_POOL_SIZE.

    A field of type str may also come from a file: SKEIN_<FIELD>_FILE names it. Use that for secrets.
    """

    prefix: ClassVar[str] = PREFIX

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Read every field. Raises SettingInvalid with the name of the variable and its valid values."""
        settings = cls.read_all(os.environ if environment is None else environment)
        for setting in settings:
            if setting.problem:
                raise SettingInvalid(setting.problem)
        return cls(**{setting.field: setting.value for setting in settings if setting.source})

    @classmethod
    def read_all(cls, environment: Mapping[str, str]) -> list[SettingValue]:
        """Read every field; an invalid one has a `problem`."""
        hints = typing.get_type_hints(cls)
        return [_read_setting(environment, cls.prefix, field, hints[field.name]) for field in dataclasses.fields(cls)]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SettingValue:
    """The value of one setting in an environment."""

    name: str
    field: str
    value: object = dataclasses.field(repr=False)
    default: object = dataclasses.field(repr=False)
    # "environment", "file …", or empty for the default.
    source: str
    # Whether its value must not be shown.
    secret: bool
    # Why the value is invalid, in one sentence; empty: it is valid.
    problem: str = ""


def _read_setting(
    values: Mapping[str, str], prefix: str, field: dataclasses.Field[object], kind: object
) -> SettingValue:
    name = f"{prefix}{field.name.upper()}"
    path = values.get(f"{name}_FILE") if kind is str else None
    source = "environment" if name in values else "" if path is None else f"file {path}"
    value, problem = field.default, ""
    try:
        text = read_variable(values, name) if kind is str else values.get(name)
        if text is not None:
            value = _parse(name, text, kind)
    except SettingInvalid as invalid:
        problem = str(invalid)
    return SettingValue(
        name=name,
        field=field.name,
        value=value,
        default=field.default,
        source=source,
        secret=not field.repr,
        problem=problem,
    )


def read_variable(values: Mapping[str, str], name: str) -> str | None:
    """Return the value of a variable, or the text of the file that NAME_FILE names; None without both.

    Raises SettingInvalid for a file that cannot be read.
    """
    if name in values:
        return values[name]
    path = values.get(f"{name}_FILE")
    if path is None:
        return None
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError as error:
        message = f"{name}_FILE names a file that cannot be read: {error.strerror}."
    except UnicodeDecodeError:
        message = f"{name}_FILE names a file that is not UTF-8 text."
    raise SettingInvalid(message)


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
        if kind is float:
            return _finite(text)
        if kind in (int, str):
            return typing.cast("type[int]", kind)(text)
    except ValueError:
        message = f"{name} should be {_NAMES[kind]}, not {text!r}."
        raise SettingInvalid(message) from None
    message = f"{name} has a type that cannot be read: {kind}."
    raise TypeError(message)


def _finite(text: str) -> float:
    number = float(text)
    if math.isfinite(number):
        return number
    raise ValueError(text)


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(text)


_NAMES: Mapping[object, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def default_data_dir() -> Path:
    """Return the data folder of `skein up` without SKEIN_DATA_DIR."""
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
    # SKEIN_DATABASE_URL leads through a PgBouncer in transaction mode: nothing is left behind in a connection.
    database_pooled: bool = False
    # Postgres itself, for what a PgBouncer cannot carry: the worker's queue, `skein migrate` and `skein bootstrap`.
    # Empty: SKEIN_DATABASE_URL.
    database_direct_url: str = dataclasses.field(default="", repr=False)
    # Statements that a connection keeps prepared; 0 for a PgBouncer that cannot keep them.
    statement_cache_size: int = 512
    # A streaming replica of Postgres, as a URL: reads whose callers say how new they must be may come from there.
    replica_url: str = dataclasses.field(default="", repr=False)
    # Connections that one service keeps at most.
    pool_size: int = 10
    # Seconds to wait for a free connection before the call is refused.
    pool_timeout_seconds: float = 5.0
    # Queries that take so many seconds are logged by their names; 0 logs none.
    slow_query_seconds: float = 1.0
    # Seconds that one statement of a caller's read gets in the database, whatever the caller's deadline; 0: no limit.
    read_seconds: float = 10.0
    # Text that the conditions of one tenant's reads may scan each second in one service of a process, in MiB times the
    # conditions; sixteen seconds of it at once. 0: no limit.
    scan_mebibytes_per_second: float = 16.0
    # Address that internal services bind to.
    host: str = "127.0.0.1"
    # What auth seals its signing keys with and the worker proves itself with; at least 32 characters.
    system_key: str = dataclasses.field(default="", repr=False)
    # Certificates (PEM) that vouch for services called over TLS; unset: those that the machine trusts.
    ca_file: Path | None = None
    # PEM file of the certificate, with its chain, that services show each other. With it, its key and SKEIN_MTLS_CA
    # calls between services speak TLS, and every service but the gateway refuses callers without such a certificate.
    # The three files are read again when they change.
    mtls_certificate: Path | None = None
    # PEM file of the key of SKEIN_MTLS_CERTIFICATE.
    mtls_key: Path | None = None
    # PEM file of the authorities that signed the services' certificates.
    mtls_ca: Path | None = None
    # Port of /metrics, /livez and /readyz; 0 takes a free one.
    admin_port: int = 9450
    # Seconds that a new HTTP connection gets for its TLS handshake and the headers of its request, and a connection in
    # use for the headers of each further one.
    http_header_seconds: float = 10.0
    # Seconds that the body of a request gets to arrive, over HTTP and gRPC.
    request_body_seconds: float = 60.0
    # Seconds that an HTTP connection stays open without a request; longer than those of a proxy before it.
    http_idle_seconds: float = 75.0
    # Seconds that a client of HTTP may take nothing of its answer.
    http_stalled_seconds: float = 60.0
    # HTTP connections of one address, at most half of all; 0: no such limit. 127.0.0.1 and
    # SKEIN_TRUSTED_PROXIES have none.
    http_connections_per_address: int = 256
    # Seconds that a new gRPC connection gets for its handshake: TLS, and HTTP/2's first frames.
    grpc_handshake_seconds: float = 10.0
    # Seconds that a gRPC connection stays open without a call; its client opens another one for the next call.
    grpc_idle_seconds: float = 120.0
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
    # Refuse calls beyond what a service can do, while there is still time to do the others.
    admission: bool = True
    # Lower bound of the calls that a service works on at once; it finds the number by itself.
    admission_calls_least: int = 8
    # Upper bound of the calls that a service works on at once.
    admission_calls_most: int = 256
    # Calls that wait for their turn at most; large ones count as one for each 64 KiB.
    admission_waiting: int = 1000
    # Seconds that a call waits for its turn once there is always one waiting; three times as long before.
    admission_wait_seconds: float = 0.1
    # Seconds that work may wait for the event loop, a database connection or the embedder; beyond, the service works on
    # fewer calls at once.
    admission_delay_seconds: float = 0.01
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

    def __post_init__(self) -> None:
        """Raise SettingInvalid for values out of range."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and value < 0:
                message = f"{self.prefix}{field.name.upper()} should not be below 0."
                raise SettingInvalid(message)
        if self.pool_size < 1:
            message = "SKEIN_POOL_SIZE should be at least 1."
            raise SettingInvalid(message)
        for name in _POSITIVE_SETTINGS:
            if getattr(self, name) <= 0:
                message = f"{self.prefix}{name.upper()} should be above 0."
                raise SettingInvalid(message)
        if self.admin_port > LAST_PORT:
            message = f"SKEIN_ADMIN_PORT should be a port from 0 to {LAST_PORT}, not {self.admin_port}."
            raise SettingInvalid(message)
        if self.trace_ratio > 1:
            message = "SKEIN_TRACE_RATIO should be a share, from 0 to 1."
            raise SettingInvalid(message)
        if self.log_level.lower() not in _LOG_LEVELS:
            message = f"SKEIN_LOG_LEVEL should be one of {', '.join(_LOG_LEVELS)}, not {self.log_level!r}."
            raise SettingInvalid(message)
