"""The methods of the services of skein/memory/v1/memory.proto, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from skein.memory.v1 import access_log_pb2
from skein.memory.v1 import memory_pb2
from skein.memory.v1 import scores_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryServiceMethods:
    """What answers each RPC of MemoryService."""

    CreateMemory: Callable[[memory_pb2.CreateMemoryRequest, Any], Awaitable[memory_pb2.CreateMemoryResponse]]
    BatchCreateMemories: Callable[[memory_pb2.BatchCreateMemoriesRequest, Any], Awaitable[memory_pb2.BatchCreateMemoriesResponse]]
    GetMemory: Callable[[memory_pb2.GetMemoryRequest, Any], Awaitable[memory_pb2.GetMemoryResponse]]
    BatchGetMemories: Callable[[memory_pb2.BatchGetMemoriesRequest, Any], Awaitable[memory_pb2.BatchGetMemoriesResponse]]
    ListMemories: Callable[[memory_pb2.ListMemoriesRequest, Any], Awaitable[memory_pb2.ListMemoriesResponse]]
    UpdateMemory: Callable[[memory_pb2.UpdateMemoryRequest, Any], Awaitable[memory_pb2.UpdateMemoryResponse]]
    DeleteMemory: Callable[[memory_pb2.DeleteMemoryRequest, Any], Awaitable[memory_pb2.DeleteMemoryResponse]]
    UndeleteMemory: Callable[[memory_pb2.UndeleteMemoryRequest, Any], Awaitable[memory_pb2.UndeleteMemoryResponse]]
    ListMemoryVersions: Callable[[memory_pb2.ListMemoryVersionsRequest, Any], Awaitable[memory_pb2.ListMemoryVersionsResponse]]
    ExportMemories: Callable[[memory_pb2.ExportMemoriesRequest, Any], Awaitable[memory_pb2.ExportMemoriesResponse]]
    PurgeMemories: Callable[[memory_pb2.PurgeMemoriesRequest, Any], Awaitable[memory_pb2.PurgeMemoriesResponse]]
    DeleteMemories: Callable[[memory_pb2.DeleteMemoriesRequest, Any], Awaitable[memory_pb2.DeleteMemoriesResponse]]
    ListMemoryTypes: Callable[[memory_pb2.ListMemoryTypesRequest, Any], Awaitable[memory_pb2.ListMemoryTypesResponse]]
    RevealSecret: Callable[[memory_pb2.RevealSecretRequest, Any], Awaitable[memory_pb2.RevealSecretResponse]]
    RotateTenantKey: Callable[[memory_pb2.RotateTenantKeyRequest, Any], Awaitable[memory_pb2.RotateTenantKeyResponse]]
    PromoteMemory: Callable[[memory_pb2.PromoteMemoryRequest, Any], Awaitable[memory_pb2.PromoteMemoryResponse]]
    DemoteMemory: Callable[[memory_pb2.DemoteMemoryRequest, Any], Awaitable[memory_pb2.DemoteMemoryResponse]]
    ListTasks: Callable[[memory_pb2.ListTasksRequest, Any], Awaitable[memory_pb2.ListTasksResponse]]
    UpdateTaskStatus: Callable[[memory_pb2.UpdateTaskStatusRequest, Any], Awaitable[memory_pb2.UpdateTaskStatusResponse]]
    CompleteTask: Callable[[memory_pb2.CompleteTaskRequest, Any], Awaitable[memory_pb2.CompleteTaskResponse]]
    ReopenTask: Callable[[memory_pb2.ReopenTaskRequest, Any], Awaitable[memory_pb2.ReopenTaskResponse]]
    SetObjective: Callable[[memory_pb2.SetObjectiveRequest, Any], Awaitable[memory_pb2.SetObjectiveResponse]]
    ListObjectives: Callable[[memory_pb2.ListObjectivesRequest, Any], Awaitable[memory_pb2.ListObjectivesResponse]]
    ListNextActions: Callable[[memory_pb2.ListNextActionsRequest, Any], Awaitable[memory_pb2.ListNextActionsResponse]]
    ExplainScore: Callable[[scores_pb2.ExplainScoreRequest, Any], Awaitable[scores_pb2.ExplainScoreResponse]]
    ReinforceMemory: Callable[[scores_pb2.ReinforceMemoryRequest, Any], Awaitable[scores_pb2.ReinforceMemoryResponse]]
    DecayScores: Callable[[scores_pb2.DecayScoresRequest, Any], Awaitable[scores_pb2.DecayScoresResponse]]
    MergeMemories: Callable[[scores_pb2.MergeMemoriesRequest, Any], Awaitable[memory_pb2.MergeMemoriesResponse]]
    MoveMemories: Callable[[memory_pb2.MoveMemoriesRequest, Any], Awaitable[memory_pb2.MoveMemoriesResponse]]
    ConsolidateMemories: Callable[[scores_pb2.ConsolidateMemoriesRequest, Any], Awaitable[scores_pb2.ConsolidateMemoriesResponse]]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkServiceMethods:
    """What answers each RPC of LinkService."""

    CreateLink: Callable[[memory_pb2.CreateLinkRequest, Any], Awaitable[memory_pb2.CreateLinkResponse]]
    BatchCreateLinks: Callable[[memory_pb2.BatchCreateLinksRequest, Any], Awaitable[memory_pb2.BatchCreateLinksResponse]]
    UpsertLink: Callable[[memory_pb2.UpsertLinkRequest, Any], Awaitable[memory_pb2.UpsertLinkResponse]]
    GetLink: Callable[[memory_pb2.GetLinkRequest, Any], Awaitable[memory_pb2.GetLinkResponse]]
    UpdateLink: Callable[[memory_pb2.UpdateLinkRequest, Any], Awaitable[memory_pb2.UpdateLinkResponse]]
    DeleteLink: Callable[[memory_pb2.DeleteLinkRequest, Any], Awaitable[memory_pb2.DeleteLinkResponse]]
    ListLinks: Callable[[memory_pb2.ListLinksRequest, Any], Awaitable[memory_pb2.ListLinksResponse]]
    TraverseLinks: Callable[[memory_pb2.TraverseLinksRequest, Any], Awaitable[memory_pb2.TraverseLinksResponse]]
    GetSubgraph: Callable[[memory_pb2.GetSubgraphRequest, Any], Awaitable[memory_pb2.GetSubgraphResponse]]
    FindPaths: Callable[[memory_pb2.FindPathsRequest, Any], Awaitable[memory_pb2.FindPathsResponse]]
    SpreadActivation: Callable[[memory_pb2.SpreadActivationRequest, Any], Awaitable[memory_pb2.SpreadActivationResponse]]
    SuggestLinks: Callable[[memory_pb2.SuggestLinksRequest, Any], Awaitable[memory_pb2.SuggestLinksResponse]]


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryInternalServiceMethods:
    """What answers each RPC of MemoryInternalService."""

    EnsurePartitions: Callable[[memory_pb2.EnsurePartitionsRequest, Any], Awaitable[memory_pb2.EnsurePartitionsResponse]]
    ListDueTenants: Callable[[memory_pb2.ListDueTenantsRequest, Any], Awaitable[memory_pb2.ListDueTenantsResponse]]
    DeleteExpired: Callable[[memory_pb2.DeleteExpiredRequest, Any], Awaitable[memory_pb2.DeleteExpiredResponse]]
    DeliverWebhooks: Callable[[memory_pb2.DeliverWebhooksRequest, Any], Awaitable[memory_pb2.DeliverWebhooksResponse]]
    ContinueSnapshots: Callable[[memory_pb2.ContinueSnapshotsRequest, Any], Awaitable[memory_pb2.ContinueSnapshotsResponse]]
    ArchiveIdleMemories: Callable[[memory_pb2.ArchiveIdleMemoriesRequest, Any], Awaitable[memory_pb2.ArchiveIdleMemoriesResponse]]
    ApplyRetention: Callable[[memory_pb2.ApplyRetentionRequest, Any], Awaitable[memory_pb2.ApplyRetentionResponse]]
    RetractFacts: Callable[[memory_pb2.RetractFactsRequest, Any], Awaitable[memory_pb2.RetractFactsResponse]]
    KeepRefusedFacts: Callable[[memory_pb2.KeepRefusedFactsRequest, Any], Awaitable[memory_pb2.KeepRefusedFactsResponse]]
    RevealModelKey: Callable[[memory_pb2.RevealModelKeyRequest, Any], Awaitable[memory_pb2.RevealModelKeyResponse]]
    PurgeFacts: Callable[[memory_pb2.PurgeFactsRequest, Any], Awaitable[memory_pb2.PurgeFactsResponse]]
    PurgeTenant: Callable[[memory_pb2.PurgeTenantRequest, Any], Awaitable[memory_pb2.PurgeTenantResponse]]
    DecayMemories: Callable[[memory_pb2.DecayMemoriesRequest, Any], Awaitable[memory_pb2.DecayMemoriesResponse]]
    RescoreTrust: Callable[[memory_pb2.RescoreTrustRequest, Any], Awaitable[memory_pb2.RescoreTrustResponse]]
    ReindexMemories: Callable[[memory_pb2.ReindexMemoriesRequest, Any], Awaitable[memory_pb2.ReindexMemoriesResponse]]
    RecordRefusedCalls: Callable[[access_log_pb2.RecordRefusedCallsRequest, Any], Awaitable[access_log_pb2.RecordRefusedCallsResponse]]
