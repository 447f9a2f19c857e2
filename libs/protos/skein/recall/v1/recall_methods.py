"""The methods of the services of skein/recall/v1/recall.proto, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from skein.recall.v1 import recall_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallServiceMethods:
    """What answers each RPC of RecallService."""

    Recall: Callable[[recall_pb2.RecallRequest, Any], Awaitable[recall_pb2.RecallResponse]]
    FindSimilar: Callable[[recall_pb2.FindSimilarRequest, Any], Awaitable[recall_pb2.FindSimilarResponse]]
    GetRecallReceipt: Callable[[recall_pb2.GetRecallReceiptRequest, Any], Awaitable[recall_pb2.GetRecallReceiptResponse]]
    ListRecallReceipts: Callable[[recall_pb2.ListRecallReceiptsRequest, Any], Awaitable[recall_pb2.ListRecallReceiptsResponse]]
    ReplayRecall: Callable[[recall_pb2.ReplayRecallRequest, Any], Awaitable[recall_pb2.ReplayRecallResponse]]
    DiffRecall: Callable[[recall_pb2.DiffRecallRequest, Any], Awaitable[recall_pb2.DiffRecallResponse]]
    GetSearchCounts: Callable[[recall_pb2.GetSearchCountsRequest, Any], Awaitable[recall_pb2.GetSearchCountsResponse]]
    EmbedText: Callable[[recall_pb2.EmbedTextRequest, Any], Awaitable[recall_pb2.EmbedTextResponse]]
    ListEmbeddingModels: Callable[[recall_pb2.ListEmbeddingModelsRequest, Any], Awaitable[recall_pb2.ListEmbeddingModelsResponse]]
    RegisterEmbeddingModel: Callable[[recall_pb2.RegisterEmbeddingModelRequest, Any], Awaitable[recall_pb2.RegisterEmbeddingModelResponse]]
    PutEmbedding: Callable[[recall_pb2.PutEmbeddingRequest, Any], Awaitable[recall_pb2.PutEmbeddingResponse]]
    BatchGetIndexStates: Callable[[recall_pb2.BatchGetIndexStatesRequest, Any], Awaitable[recall_pb2.BatchGetIndexStatesResponse]]
    StartReindex: Callable[[recall_pb2.StartReindexRequest, Any], Awaitable[recall_pb2.StartReindexResponse]]
    GetReindex: Callable[[recall_pb2.GetReindexRequest, Any], Awaitable[recall_pb2.GetReindexResponse]]
    ListReindexes: Callable[[recall_pb2.ListReindexesRequest, Any], Awaitable[recall_pb2.ListReindexesResponse]]
    CancelReindex: Callable[[recall_pb2.CancelReindexRequest, Any], Awaitable[recall_pb2.CancelReindexResponse]]
    CompareEmbeddingModels: Callable[[recall_pb2.CompareEmbeddingModelsRequest, Any], Awaitable[recall_pb2.CompareEmbeddingModelsResponse]]
    ActivateEmbeddingModel: Callable[[recall_pb2.ActivateEmbeddingModelRequest, Any], Awaitable[recall_pb2.ActivateEmbeddingModelResponse]]
    OfferEmbeddingModel: Callable[[recall_pb2.OfferEmbeddingModelRequest, Any], Awaitable[recall_pb2.OfferEmbeddingModelResponse]]
    DeleteEmbeddingModel: Callable[[recall_pb2.DeleteEmbeddingModelRequest, Any], Awaitable[recall_pb2.DeleteEmbeddingModelResponse]]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallInternalServiceMethods:
    """What answers each RPC of RecallInternalService."""

    IndexItems: Callable[[recall_pb2.IndexItemsRequest, Any], Awaitable[recall_pb2.IndexItemsResponse]]
    IndexBacklog: Callable[[recall_pb2.IndexBacklogRequest, Any], Awaitable[recall_pb2.IndexBacklogResponse]]
    ListDueTenants: Callable[[recall_pb2.ListDueTenantsRequest, Any], Awaitable[recall_pb2.ListDueTenantsResponse]]
    ListDueReindexes: Callable[[recall_pb2.ListDueReindexesRequest, Any], Awaitable[recall_pb2.ListDueReindexesResponse]]
    ContinueReindex: Callable[[recall_pb2.ContinueReindexRequest, Any], Awaitable[recall_pb2.ContinueReindexResponse]]
    PurgeTenant: Callable[[recall_pb2.PurgeTenantRequest, Any], Awaitable[recall_pb2.PurgeTenantResponse]]
    RecordContexts: Callable[[recall_pb2.RecordContextsRequest, Any], Awaitable[recall_pb2.RecordContextsResponse]]
    CheckItems: Callable[[recall_pb2.CheckItemsRequest, Any], Awaitable[recall_pb2.CheckItemsResponse]]
