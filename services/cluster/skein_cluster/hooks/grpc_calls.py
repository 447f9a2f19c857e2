"""Calls of a hook over gRPC, for a cluster whose HTTP address is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import Default

from skein_client.errors import SkeinError
from skein_client.retry import RetryPolicy
from skein_client.sync import Client
from skein_cluster.cli.error_messages import error_sentence
from skein_cluster.hooks.failures import AUTH, BLOCKS, GATEWAY, CallFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from skein_client.environment import Access

_STUBS = {GATEWAY: "gateway", BLOCKS: "blocks", AUTH: "auth"}
_RETRIES = RetryPolicy(attempts=2)


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
