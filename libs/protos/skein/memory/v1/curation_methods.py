"""The methods of the services of skein/memory/v1/curation.proto, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from skein.memory.v1 import approvals_pb2
from skein.memory.v1 import curation_pb2
from skein.memory.v1 import pages_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class CurationServiceMethods:
    """What answers each RPC of CurationService."""

    SetSourceTrust: Callable[[curation_pb2.SetSourceTrustRequest, Any], Awaitable[curation_pb2.SetSourceTrustResponse]]
    GetSourceTrust: Callable[[curation_pb2.GetSourceTrustRequest, Any], Awaitable[curation_pb2.GetSourceTrustResponse]]
    ListSourceTrust: Callable[[curation_pb2.ListSourceTrustRequest, Any], Awaitable[curation_pb2.ListSourceTrustResponse]]
    DeleteSourceTrust: Callable[[curation_pb2.DeleteSourceTrustRequest, Any], Awaitable[curation_pb2.DeleteSourceTrustResponse]]
    ListConflicts: Callable[[curation_pb2.ListConflictsRequest, Any], Awaitable[curation_pb2.ListConflictsResponse]]
    ResolveConflict: Callable[[curation_pb2.ResolveConflictRequest, Any], Awaitable[curation_pb2.ResolveConflictResponse]]
    ListConflictResolutions: Callable[[curation_pb2.ListConflictResolutionsRequest, Any], Awaitable[curation_pb2.ListConflictResolutionsResponse]]
    ResolveEntity: Callable[[curation_pb2.ResolveEntityRequest, Any], Awaitable[curation_pb2.ResolveEntityResponse]]
    GetCanonicalMemory: Callable[[curation_pb2.GetCanonicalMemoryRequest, Any], Awaitable[curation_pb2.GetCanonicalMemoryResponse]]
    ListAliases: Callable[[curation_pb2.ListAliasesRequest, Any], Awaitable[curation_pb2.ListAliasesResponse]]
    DeleteAlias: Callable[[curation_pb2.DeleteAliasRequest, Any], Awaitable[curation_pb2.DeleteAliasResponse]]
    GetLineage: Callable[[curation_pb2.GetLineageRequest, Any], Awaitable[curation_pb2.GetLineageResponse]]
    ListImpacted: Callable[[curation_pb2.ListImpactedRequest, Any], Awaitable[curation_pb2.ListImpactedResponse]]
    ListPendingMemories: Callable[[approvals_pb2.ListPendingMemoriesRequest, Any], Awaitable[approvals_pb2.ListPendingMemoriesResponse]]
    ListRefusedFacts: Callable[[approvals_pb2.ListRefusedFactsRequest, Any], Awaitable[approvals_pb2.ListRefusedFactsResponse]]
    ApproveMemory: Callable[[approvals_pb2.ApproveMemoryRequest, Any], Awaitable[approvals_pb2.ApproveMemoryResponse]]
    RefuseMemory: Callable[[approvals_pb2.RefuseMemoryRequest, Any], Awaitable[approvals_pb2.RefuseMemoryResponse]]
    GetReviewQueue: Callable[[curation_pb2.GetReviewQueueRequest, Any], Awaitable[curation_pb2.GetReviewQueueResponse]]
    GetTemporalClusters: Callable[[curation_pb2.GetTemporalClustersRequest, Any], Awaitable[curation_pb2.GetTemporalClustersResponse]]
    GetStatistics: Callable[[curation_pb2.GetStatisticsRequest, Any], Awaitable[curation_pb2.GetStatisticsResponse]]
    CreatePage: Callable[[pages_pb2.CreatePageRequest, Any], Awaitable[pages_pb2.CreatePageResponse]]
    GetPage: Callable[[pages_pb2.GetPageRequest, Any], Awaitable[pages_pb2.GetPageResponse]]
    ListPages: Callable[[pages_pb2.ListPagesRequest, Any], Awaitable[pages_pb2.ListPagesResponse]]
    UpdatePage: Callable[[pages_pb2.UpdatePageRequest, Any], Awaitable[pages_pb2.UpdatePageResponse]]
    DeletePage: Callable[[pages_pb2.DeletePageRequest, Any], Awaitable[pages_pb2.DeletePageResponse]]
