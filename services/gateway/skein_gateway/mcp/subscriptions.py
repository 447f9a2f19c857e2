"""subscriptions/listen (MCP 2026-07-28): changes of memories and pages, from the tenant's change log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    event_matches,
    event_to_notification,
)

from skein.memory.v1 import history_pb2
from skein_gateway.mcp import errors as mcp_errors
from skein_gateway.mcp.resources import MEMORIES, PAGES
from skein_gateway.mcp.rpc_calls import RpcCaller, mcp_request_of
from skein_kit.calls.call import CallAborted

_STREAM_CHANGES = "/skein.memory.v1.HistoryService/StreamChanges"
# The change log has these entities; sessions are not among them.
_RESOURCES = {"memory": MEMORIES, "page": PAGES}
# What such a change does to the list of resources.
_LIST_CHANGES = ("_created", "_deleted", "_undeleted", "_purged")


class Subscriptions:
    """The handler."""

    def __init__(self, rpcs: RpcCaller) -> None:
        """Call RPCs."""
        self._rpcs = rpcs

    async def listen(
        self, context: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Send what the client subscribed to until it disconnects or the stream of changes ends.

        Nothing is replayed: a client that listens again reads its resources again.
        """
        if context.request_id is None:
            raise MCPError(types.INVALID_REQUEST, "subscriptions/listen needs a request id.")
        honored = _honored(params.notifications)
        uris = frozenset(honored.resource_subscriptions or ())
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: context.request_id}
        acknowledged = types.SubscriptionsAcknowledgedNotification(
            params=types.SubscriptionsAcknowledgedNotificationParams(notifications=honored, _meta=meta)
        )
        is_acknowledged = False
        request = history_pb2.StreamChangesRequest()
        stream = self._rpcs.stream(mcp_request_of(context), _STREAM_CHANGES, request)
        try:
            async with aclosing(stream) as responses:
                async for response in responses:
                    # The first response comes at once, and says that the stream is open.
                    if not is_acknowledged:
                        is_acknowledged = True
                        await context.session.send_notification(acknowledged, related_request_id=context.request_id)
                    for event in _events(response):
                        if event_matches(honored, uris, event):
                            await context.session.send_notification(
                                event_to_notification(event, meta), related_request_id=context.request_id
                            )
        except CallAborted as aborted:
            raise mcp_errors.error(aborted.status, context.protocol_version) from None
        return types.SubscriptionsListenResult(_meta=meta)


def _honored(requested: types.SubscriptionFilter) -> types.SubscriptionFilter:
    """Return what the server will send: tools and prompts never change, and sessions have no change log."""
    uris = [uri for uri in requested.resource_subscriptions or () if uri.startswith(tuple(_RESOURCES.values()))]
    return types.SubscriptionFilter(
        resources_list_changed=True if requested.resources_list_changed else None,
        resource_subscriptions=uris or None,
    )


def _events(response: Any) -> Iterator[ServerEvent]:
    """Return the events of a change; none for a heartbeat."""
    change = response.change
    prefix = _RESOURCES.get(change.entity_type)
    if prefix is None:
        return
    yield ResourceUpdated(uri=prefix + quote(change.entity_id, safe=""))
    if change.event_type.endswith(_LIST_CHANGES):
        yield ResourcesListChanged()
