"""Calls of a hook, over the gateway's HTTP where its address is known, else over gRPC.

A hook is a process for one call, and importing gRPC with the contract takes longer than the call: HTTP needs neither.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import Default

from skein_client.environment import Access, NotConfigured, read_access, read_ca_file
from skein_client.errors import SkeinError
from skein_client.retry import RetryPolicy
from skein_client.sync import Client
from skein_cluster.cli.error_messages import error_sentence

GATEWAY = "skein.gateway.v1.GatewayService"
BLOCKS = "skein.memory.v1.BlockService"
AUTH = "skein.auth.v1.AuthService"


class CallFailed(Exception):
    """The cluster refused a call, or did not answer; the message is for the person."""

    def __init__(self, message: str, *, reason: str = "", code: str = "") -> None:
        """Keep the reason and the code of a refusal; empty for a cluster that does not answer."""
        super().__init__(message)
        self.reason = reason
        self.code = code


# A busy cluster is asked once more, since the agent waits.
_PAUSE_SECONDS = 0.1
_UNAVAILABLE = "unavailable"
_STUBS = {GATEWAY: "gateway", BLOCKS: "blocks", AUTH: "auth"}
_RETRIES = RetryPolicy(attempts=2)


class Cluster(NamedTuple):
    """Where the cluster is, and how to call it."""

    # Without an HTTP address gRPC is called.
    access: Access
    tenant_id: str
    ca_file: Path | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Cluster:
        """Read what the client reads, and SKEIN_HTTP_ENDPOINT. Raises NotConfigured."""
        return cls(read_access(environment), environment.get("SKEIN_TENANT_ID", ""), read_ca_file(environment))

    @property
    def address(self) -> str:
        """The address that is called."""
        return self.access.http_endpoint or self.access.endpoint

    def call(self, service: str, method: str, request: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        """Call an RPC by the JSON of its messages, until a time of time.monotonic. Raises CallFailed, TimeoutError."""
        if not self.access.http_endpoint:
            return call(
                self.access,
                service,
                method,
                request,
                tenant_id=self.tenant_id,
                ca_file=self.ca_file,
                timeout_seconds=_remaining(deadline),
            )
        try:
            return self._call_http(service, method, request, deadline)
        except CallFailed as error:
            if error.code != _UNAVAILABLE or _remaining(deadline) <= _PAUSE_SECONDS:
                raise
        time.sleep(_PAUSE_SECONDS)
        return self._call_http(service, method, request, deadline)

    def _call_http(self, service: str, method: str, request: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        remaining = _remaining(deadline)
        connection = self._connect(remaining)
        headers = {
            "authorization": f"Bearer {self.access.api_key}",
            "content-type": "application/json",
            "connect-protocol-version": "1",
            "connect-timeout-ms": str(max(int(remaining * 1000), 1)),
            **({"skein-tenant-id": self.tenant_id} if self.tenant_id else {}),
        }
        try:
            path = f"{urlsplit(self.access.http_endpoint).path.rstrip('/')}/{service}/{method}"
            connection.request("POST", path, json.dumps(request).encode(), headers)
            response = connection.getresponse()
            status, body = response.status, response.read()
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise CallFailed(f"Skein does not answer at {self.access.http_endpoint} ({_cause(error)}).") from None
        finally:
            connection.close()
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            message = f"{self.access.http_endpoint} answers {status} without JSON: it is no HTTP address of Skein."
            raise CallFailed(message)
        if status != http.HTTPStatus.OK:
            raise CallFailed(_sentence(answer), reason=_reason(answer), code=str(answer.get("code", "")))
        return answer

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        url = urlsplit(self.access.http_endpoint)
        try:
            host, port = url.hostname or "", url.port
        except ValueError:
            host, port = "", None
        if url.scheme not in {"http", "https"} or not host:
            message = f'"{self.access.http_endpoint}" is no address: write it as "http://127.0.0.1:8080".'
            raise NotConfigured(message)
        if url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout)
        import ssl  # noqa: PLC0415 - for https alone.

        try:
            trusted = ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        except OSError as error:
            message = f"Cannot read the file that SKEIN_CA_FILE names: {error.strerror}."
            raise NotConfigured(message) from None
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=trusted)


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def _cause(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__).lower()


def _sentence(answer: Mapping[str, Any]) -> str:
    message = str(answer.get("message") or answer.get("code") or "Skein refused the call")
    return message if message.endswith((".", "!", "?")) else f"{message}."


def _reason(answer: Mapping[str, Any]) -> str:
    details = answer.get("details")
    for detail in details if isinstance(details, list) else ():
        debug = detail.get("debug") if isinstance(detail, dict) else None
        if isinstance(debug, dict) and debug.get("reason"):
            return str(debug["reason"])
    return ""


def call(
    access: Access,
    service: str,
    method: str,
    request: Mapping[str, Any],
    *,
    tenant_id: str,
    ca_file: Path | None,
    timeout_seconds: float,
) -> dict[str, Any]:
    """Call an RPC by the JSON of its messages. Raises CallFailed."""
    descriptor = Default().FindServiceByName(service).methods_by_name[method]
    message = json_format.ParseDict(dict(request), message_factory.GetMessageClass(descriptor.input_type)())
    client = Client(
        endpoint=access.endpoint,
        api_key=access.api_key,
        tenant_id=tenant_id,
        timeout=timeout_seconds,
        retries=_RETRIES,
        ca_file=ca_file,
    )
    try:
        with client:
            response = getattr(getattr(client, _STUBS[service]), method)(message)
    except SkeinError as error:
        if not error.reason:
            raise CallFailed(f"Skein does not answer at {access.endpoint}.") from None
        raise CallFailed(error_sentence(error), reason=error.reason) from None
    return json_format.MessageToDict(response)
