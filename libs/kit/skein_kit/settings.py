"""Settings: frozen dataclasses read once from `SKEIN_*` variables, before any socket opens."""

from __future__ import annotations

import dataclasses
import math
import os
import tempfile
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self, TypeVar

PREFIX = "SKEIN_"
# What the names of advanced settings begin with.
ADVANCED_PREFIX = f"{PREFIX}ADVANCED_"
T = TypeVar("T")

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off", ""})
LAST_PORT = 65535
# A time limit of 0 would close every connection.
_POSITIVE_SETTINGS = ("handshake_seconds", "transfer_seconds", "idle_seconds")
_LOG_LEVELS = ("debug", "info", "warning", "error")
_MEMORY_SPANS = ("off", "on", "content")


class SettingInvalid(Exception):
    """A setting cannot be used."""


def advanced(default: T) -> T:
    """Return the field of an advanced setting: one that only a measurement gives a reason to change.

    The field `x` of the prefix SKEIN_RECALL_ is the variable SKEIN_ADVANCED_RECALL_X.
    """
    return dataclasses.field(default=default, metadata={"advanced": True})


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
    def variable_of(cls, field: dataclasses.Field[object]) -> str:
        """Return the variable of a field."""
        name = f"{cls.prefix}{field.name.upper()}"
        return f"{ADVANCED_PREFIX}{name.removeprefix(PREFIX)}" if field.metadata.get("advanced") else name

    @classmethod
    def read_all(cls, environment: Mapping[str, str]) -> list[SettingValue]:
        """Read every field; an invalid one has a `problem`."""
        hints = typing.get_type_hints(cls)
        return [
            _read_setting(environment, cls.variable_of(field), field, hints[field.name])
            for field in dataclasses.fields(cls)
        ]


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


def _read_setting(values: Mapping[str, str], name: str, field: dataclasses.Field[object], kind: object) -> SettingValue:
    path = values.get(f"{name}_FILE") if kind is str else None
    source = "environment" if name in values else "" if path is None else f"file {path}"
    value, problem = field.default, ""
    try:
        text = read_variable(values, name) if kind is str else values.get(name)
        if text is not None:
            value = _parse(name, text, kind)
    except SettingInvalid as error:
        problem = str(error)
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
    # SKEIN_DATABASE_URL leads through a PgBouncer in transaction mode, so connections keep no state between
    # transactions.
    database_pooled: bool = False
    # Postgres without the PgBouncer, for the worker's queue, `skein migrate` and `skein bootstrap`. Empty:
    # SKEIN_DATABASE_URL.
    database_direct_url: str = dataclasses.field(default="", repr=False)
    # SKEIN_DATABASE_URL is the coordinator of a Citus cluster: every statement is planned for its values, because Citus
    # fails on plans that are reused, and BEGIN goes in a message of its own, because Citus sends the settings of a
    # message on to its workers as they came.
    database_citus: bool = False
    # Prepared statements of a connection; 0 for a PgBouncer that does not support them.
    statement_cache_size: int = 512
    # A streaming replica of Postgres, as a URL. It serves reads whose callers say how fresh the data must be.
    replica_url: str = dataclasses.field(default="", repr=False)
    # Most connections of one service.
    pool_size: int = 10
    # Seconds that a call waits for a free connection before it is refused. More, where callers rather wait than retry.
    pool_timeout_seconds: float = advanced(5.0)
    # Queries that take longer are logged by name; 0 logs none.
    slow_query_seconds: float = 1.0
    # MiB of text that the filters of one tenant's reads may scan per second in one service of a process; each condition
    # counts. Bursts may use sixteen seconds' worth. More, for tenants that filter large stores by text; 0: no limit.
    scan_mebibytes_per_second: float = advanced(16.0)
    # Address that internal services listen on.
    host: str = "127.0.0.1"
    # Encrypts the signing keys of auth and authenticates the worker; at least 32 characters.
    system_key: str = dataclasses.field(default="", repr=False)
    # Share the gateway's gRPC and HTTP ports with other processes of this machine and user (SO_REUSEPORT): each new
    # connection goes to one of them. `skein up --processes` sets it. Linux only.
    share_gateway_ports: bool = False
    # PEM file of the authorities of services that are called over TLS; unset: those of the machine.
    ca_file: Path | None = None
    # PEM file of the certificate, with its chain, for mutual TLS between services. It names the services of this
    # process: auth's DNS name is auth.skein.internal. With it, its key and SKEIN_MTLS_CA, calls between services use
    # TLS, and every service but the gateway refuses callers without a certificate. `skein cluster` makes its own;
    # `skein mtls certificates` makes them for `skein serve`, which calls no other process without. The three files are
    # read again when they change.
    mtls_certificate: Path | None = None
    # PEM file of the key of SKEIN_MTLS_CERTIFICATE.
    mtls_key: Path | None = None
    # PEM file of the authorities that signed the services' certificates.
    mtls_ca: Path | None = None
    # Port of /metrics, /livez and /readyz; 0: a free one.
    admin_port: int = 9450
    # Timeout for the handshake of a new connection (TLS, and the first frames of HTTP/2) and for the headers of each
    # HTTP request, in seconds. More, for clients behind slow or lossy links.
    handshake_seconds: float = advanced(10.0)
    # Timeout for the body of a request to arrive, over HTTP and gRPC, and the time that a client may stop reading an
    # HTTP response, in seconds. More, for imports over slow links.
    transfer_seconds: float = advanced(60.0)
    # Most HTTP connections of one address, such as an office behind one NAT; 0: half of the port's. More, behind a
    # balancer that hides the addresses of clients. Trusted proxies have no limit.
    http_connections_per_address: int = advanced(256)
    # Seconds that a connection stays open without a request; a gRPC client opens another for the next call. More than
    # the idle timeout of a proxy before it, which otherwise sends a request into a connection that closes.
    idle_seconds: float = advanced(120.0)
    # Longest duration of a stream, in seconds. It then ends without an error, and its caller resumes it. Less, where a
    # proxy cuts streams sooner.
    max_stream_seconds: float = advanced(3600.0)
    # Seconds without an item after which a stream sends a heartbeat. Less, where a proxy closes silent streams sooner.
    stream_heartbeat_seconds: float = advanced(15.0)
    # Limit of concurrent calls of a service; 0: it adapts to the delays that it measures, between 8 and 256. A large
    # one such as 1000000 switches admission control off, for measurements.
    admission_calls: int = advanced(0)
    # Most calls in the fair queue; a large call counts as one for each 64 KiB. Further ones are refused. More, where
    # bursts are long and callers do not retry.
    admission_queue: int = advanced(1000)
    # Longest wait in the fair queue, in seconds, while it is never empty; three times as long otherwise. More, where
    # callers rather wait than retry.
    admission_wait_seconds: float = advanced(0.1)
    # Processor time in seconds from which on calls of one tenant run one after another, by the mean of earlier calls.
    # More, on slower processors, where a tenant's heavy calls wait for each other too soon.
    admission_costly_seconds: float = advanced(0.03)
    # Seconds between reporting "not ready" and refusing new calls.
    drain_seconds: float = 0.0
    # Seconds that running calls get to finish at the end of a process.
    grace_seconds: float = 10.0
    # OTLP/gRPC endpoint for traces, e.g. http://127.0.0.1:4317; empty: no tracing.
    otlp_endpoint: str = ""
    # Share of new traces that are recorded, 0 to 1. A trace begins with a call; work in the background has none.
    trace_ratio: float = 1.0
    # Spans of memory operations as in OpenTelemetry's GenAI conventions: off, on, or content. With content they hold
    # queries and memories.
    memory_spans: str = "off"
    # Least severe level that is logged: debug, info, warning or error.
    log_level: str = "info"

    def __post_init__(self) -> None:
        """Raise SettingInvalid for values out of range."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and value < 0:
                message = f"{self.variable_of(field)} should not be below 0."
                raise SettingInvalid(message)
            if field.name in _POSITIVE_SETTINGS and value <= 0:
                message = f"{self.variable_of(field)} should be above 0."
                raise SettingInvalid(message)
        if self.pool_size < 1:
            message = "SKEIN_POOL_SIZE should be at least 1."
            raise SettingInvalid(message)
        if self.admin_port > LAST_PORT:
            message = f"SKEIN_ADMIN_PORT should be a port from 0 to {LAST_PORT}, not {self.admin_port}."
            raise SettingInvalid(message)
        if self.trace_ratio > 1:
            message = "SKEIN_TRACE_RATIO should be a share, from 0 to 1."
            raise SettingInvalid(message)
        if self.memory_spans not in _MEMORY_SPANS:
            message = f"SKEIN_MEMORY_SPANS should be one of {', '.join(_MEMORY_SPANS)}, not {self.memory_spans!r}."
            raise SettingInvalid(message)
        if self.log_level.lower() not in _LOG_LEVELS:
            message = f"SKEIN_LOG_LEVEL should be one of {', '.join(_LOG_LEVELS)}, not {self.log_level!r}."
            raise SettingInvalid(message)
