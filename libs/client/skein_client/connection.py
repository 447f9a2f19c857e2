"""The endpoint and the credential of a cluster. Reads the environment, opens no socket."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from skein_client.environment import CREDENTIALS_FILE, NotConfigured, check_api_key, data_dir, read_access, read_ca_file
from skein_client.retry import RetryPolicy

__all__ = ["CREDENTIALS_FILE", "ClientClosed", "Connection", "NotConfigured", "data_dir", "read_ca_file"]

DEFAULT_TIMEOUT_SECONDS = 10.0


class ClientClosed(Exception):
    """The client is used outside its `with` block; the message says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """The settings of a client."""

    # "host:port", or "https://host:port" for TLS; "http://" means plain text, as no scheme does.
    endpoint: str
    # An API key, or an operator's key.
    api_key: str = field(repr=False)
    # For an operator's key: the tenant to act in.
    tenant_id: str = ""
    # The agent and the session that the caller says it works for: claims, which the access log records.
    agent_id: str = ""
    session_id: str = ""
    # The space in which calls act; empty: reads reach all that the caller sees, and writes the default space.
    space_id: str = ""
    # Certificates (PEM) to trust at an https endpoint; None: those that gRPC ships with.
    ca_file: Path | None = None
    # Seconds for one call, all of its attempts together.
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    retries: RetryPolicy = field(default_factory=RetryPolicy)

    def __post_init__(self) -> None:
        """Refuse a key that gRPC cannot send: gRPC's own error would not name the key."""
        check_api_key(self.api_key)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Read SKEIN_ENDPOINT, SKEIN_API_KEY (or its _FILE), SKEIN_TENANT_ID, SKEIN_SPACE_ID and SKEIN_CA_FILE.

        Missing values come from the credentials.json in the data folder of `skein up`. Its key is sent to its own
        endpoint only, so that no other cluster sees it. Raises NotConfigured.
        """
        values = os.environ if environment is None else environment
        access = read_access(values)
        return cls(
            endpoint=access.endpoint,
            api_key=access.api_key,
            tenant_id=values.get("SKEIN_TENANT_ID", ""),
            space_id=values.get("SKEIN_SPACE_ID", ""),
            ca_file=read_ca_file(values),
        )

    @property
    def secure(self) -> bool:
        """Whether to use TLS."""
        return self.endpoint.startswith("https://")

    @property
    def target(self) -> str:
        """The endpoint without its scheme, as gRPC takes it."""
        return self.endpoint.partition("://")[2].rstrip("/") if "://" in self.endpoint else self.endpoint

    @property
    def is_local(self) -> bool:
        """Whether the endpoint is this machine."""
        host = self.target.rpartition(":")[0].strip("[]")
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def roots(self) -> bytes | None:
        """The certificates (PEM) of `ca_file`; None without one. Raises NotConfigured when the file cannot be read."""
        try:
            return None if self.ca_file is None else self.ca_file.read_bytes()
        except OSError as error:
            message = f"Cannot read the file that SKEIN_CA_FILE names: {error.strerror}."
            raise NotConfigured(message) from None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of every call."""
        optional = (
            ("skein-tenant-id", self.tenant_id),
            ("skein-agent-id", self.agent_id),
            ("skein-session-id", self.session_id),
            ("skein-space-id", self.space_id),
        )
        return (("authorization", f"Bearer {self.api_key}"), *(pair for pair in optional if pair[1]))
