"""The methods of the services of skein/memory/v1/history.proto, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from skein.memory.v1 import access_log_pb2
from skein.memory.v1 import archives_pb2
from skein.memory.v1 import history_pb2
from skein.memory.v1 import webhooks_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryServiceMethods:
    """What answers each RPC of HistoryService."""

    ListChanges: Callable[[history_pb2.ListChangesRequest, Any], Awaitable[history_pb2.ListChangesResponse]]
    StreamChanges: Callable[[history_pb2.StreamChangesRequest, Any], AsyncIterator[history_pb2.StreamChangesResponse]]
    CreateWebhook: Callable[[webhooks_pb2.CreateWebhookRequest, Any], Awaitable[webhooks_pb2.CreateWebhookResponse]]
    GetWebhook: Callable[[webhooks_pb2.GetWebhookRequest, Any], Awaitable[webhooks_pb2.GetWebhookResponse]]
    ListWebhooks: Callable[[webhooks_pb2.ListWebhooksRequest, Any], Awaitable[webhooks_pb2.ListWebhooksResponse]]
    UpdateWebhook: Callable[[webhooks_pb2.UpdateWebhookRequest, Any], Awaitable[webhooks_pb2.UpdateWebhookResponse]]
    DeleteWebhook: Callable[[webhooks_pb2.DeleteWebhookRequest, Any], Awaitable[webhooks_pb2.DeleteWebhookResponse]]
    RotateWebhookSecret: Callable[[webhooks_pb2.RotateWebhookSecretRequest, Any], Awaitable[webhooks_pb2.RotateWebhookSecretResponse]]
    TestWebhook: Callable[[webhooks_pb2.TestWebhookRequest, Any], Awaitable[webhooks_pb2.TestWebhookResponse]]
    ListWebhookDeliveries: Callable[[webhooks_pb2.ListWebhookDeliveriesRequest, Any], Awaitable[webhooks_pb2.ListWebhookDeliveriesResponse]]
    RetryWebhookDelivery: Callable[[webhooks_pb2.RetryWebhookDeliveryRequest, Any], Awaitable[webhooks_pb2.RetryWebhookDeliveryResponse]]
    ArchiveMemories: Callable[[archives_pb2.ArchiveMemoriesRequest, Any], Awaitable[archives_pb2.ArchiveMemoriesResponse]]
    ListArchives: Callable[[archives_pb2.ListArchivesRequest, Any], Awaitable[archives_pb2.ListArchivesResponse]]
    UnarchiveMemories: Callable[[archives_pb2.UnarchiveMemoriesRequest, Any], Awaitable[archives_pb2.UnarchiveMemoriesResponse]]
    ListAccessLog: Callable[[access_log_pb2.ListAccessLogRequest, Any], Awaitable[access_log_pb2.ListAccessLogResponse]]
