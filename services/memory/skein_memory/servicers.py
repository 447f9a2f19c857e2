"""One class for each gRPC service of memory: each RPC is delegated to the feature that answers it."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein.memory.v1 import blocks_pb2_grpc, curation_pb2_grpc, history_pb2_grpc, snapshots_pb2_grpc
from skein.memory.v1 import memory_pb2_grpc as rpc

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from skein.memory.v1 import (
        access_log_pb2,
        archives_pb2,
        blocks_pb2,
        curation_pb2,
        history_pb2,
        scores_pb2,
        snapshots_pb2,
        webhooks_pb2,
    )
    from skein.memory.v1 import memory_pb2 as pb
    from skein_kit.calls.call import Context
    from skein_memory.access_log.rpc import AccessLogHandlers
    from skein_memory.aliases.rpc import AliasHandlers
    from skein_memory.blocks.rpc import BlockHandlers
    from skein_memory.cold_storage.rpc import ArchiveHandlers
    from skein_memory.conflicts.rpc import ConflictHandlers
    from skein_memory.curation.rpc import CurationHandlers
    from skein_memory.erasure.rpc import PurgeHandlers
    from skein_memory.events.rpc import EventHandlers
    from skein_memory.graph.rpc import GraphHandlers
    from skein_memory.links.rpc import LinkHandlers
    from skein_memory.listing.rpc import ListingHandlers
    from skein_memory.maintenance.rpc import MaintenanceHandlers
    from skein_memory.memories.rpc import MemoryHandlers
    from skein_memory.overview.rpc import OverviewHandlers
    from skein_memory.snapshots.rpc import SnapshotHandlers
    from skein_memory.source_trust.rpc import SourceTrustHandlers
    from skein_memory.tasks.rpc import TaskHandlers
    from skein_memory.transfer.rpc import TransferHandlers
    from skein_memory.vault.rpc import VaultHandlers
    from skein_memory.webhooks.rpc import WebhookHandlers


@dataclass(kw_only=True, eq=False, slots=True)
class MemoryService(rpc.MemoryServiceServicer):
    """MemoryService: create, read, change and purge memories."""

    memories: MemoryHandlers
    listing: ListingHandlers
    erasure: PurgeHandlers
    vault: VaultHandlers
    tasks: TaskHandlers
    curation: CurationHandlers

    async def CreateMemory(self, request: pb.CreateMemoryRequest, context: Context) -> pb.CreateMemoryResponse:
        return await self.memories.CreateMemory(request, context)

    async def BatchCreateMemories(
        self, request: pb.BatchCreateMemoriesRequest, context: Context
    ) -> pb.BatchCreateMemoriesResponse:
        return await self.memories.BatchCreateMemories(request, context)

    async def GetMemory(self, request: pb.GetMemoryRequest, context: Context) -> pb.GetMemoryResponse:
        return await self.listing.GetMemory(request, context)

    async def BatchGetMemories(
        self, request: pb.BatchGetMemoriesRequest, context: Context
    ) -> pb.BatchGetMemoriesResponse:
        return await self.memories.BatchGetMemories(request, context)

    async def ListMemories(self, request: pb.ListMemoriesRequest, context: Context) -> pb.ListMemoriesResponse:
        return await self.listing.ListMemories(request, context)

    async def UpdateMemory(self, request: pb.UpdateMemoryRequest, context: Context) -> pb.UpdateMemoryResponse:
        return await self.memories.UpdateMemory(request, context)

    async def DeleteMemory(self, request: pb.DeleteMemoryRequest, context: Context) -> pb.DeleteMemoryResponse:
        return await self.memories.DeleteMemory(request, context)

    async def UndeleteMemory(self, request: pb.UndeleteMemoryRequest, context: Context) -> pb.UndeleteMemoryResponse:
        return await self.memories.UndeleteMemory(request, context)

    async def ListMemoryVersions(
        self, request: pb.ListMemoryVersionsRequest, context: Context
    ) -> pb.ListMemoryVersionsResponse:
        return await self.listing.ListMemoryVersions(request, context)

    async def ExportMemories(self, request: pb.ExportMemoriesRequest, context: Context) -> pb.ExportMemoriesResponse:
        return await self.erasure.ExportMemories(request, context)

    async def PurgeMemories(self, request: pb.PurgeMemoriesRequest, context: Context) -> pb.PurgeMemoriesResponse:
        return await self.erasure.PurgeMemories(request, context)

    async def ForgetMemories(self, request: pb.ForgetMemoriesRequest, context: Context) -> pb.ForgetMemoriesResponse:
        return await self.erasure.ForgetMemories(request, context)

    async def ListMemoryTypes(self, request: pb.ListMemoryTypesRequest, context: Context) -> pb.ListMemoryTypesResponse:
        return await self.memories.ListMemoryTypes(request, context)

    async def RevealSecret(self, request: pb.RevealSecretRequest, context: Context) -> pb.RevealSecretResponse:
        return await self.memories.RevealSecret(request, context)

    async def RotateTenantKey(self, request: pb.RotateTenantKeyRequest, context: Context) -> pb.RotateTenantKeyResponse:
        return await self.vault.RotateTenantKey(request, context)

    async def PromoteMemory(self, request: pb.PromoteMemoryRequest, context: Context) -> pb.PromoteMemoryResponse:
        return await self.tasks.PromoteMemory(request, context)

    async def DemoteMemory(self, request: pb.DemoteMemoryRequest, context: Context) -> pb.DemoteMemoryResponse:
        return await self.tasks.DemoteMemory(request, context)

    async def ListTasks(self, request: pb.ListTasksRequest, context: Context) -> pb.ListTasksResponse:
        return await self.tasks.ListTasks(request, context)

    async def UpdateTaskStatus(
        self, request: pb.UpdateTaskStatusRequest, context: Context
    ) -> pb.UpdateTaskStatusResponse:
        return await self.tasks.UpdateTaskStatus(request, context)

    async def CompleteTask(self, request: pb.CompleteTaskRequest, context: Context) -> pb.CompleteTaskResponse:
        return await self.tasks.CompleteTask(request, context)

    async def ReopenTask(self, request: pb.ReopenTaskRequest, context: Context) -> pb.ReopenTaskResponse:
        return await self.tasks.ReopenTask(request, context)

    async def SetObjective(self, request: pb.SetObjectiveRequest, context: Context) -> pb.SetObjectiveResponse:
        return await self.tasks.SetObjective(request, context)

    async def ListObjectives(self, request: pb.ListObjectivesRequest, context: Context) -> pb.ListObjectivesResponse:
        return await self.tasks.ListObjectives(request, context)

    async def ListNextActions(self, request: pb.ListNextActionsRequest, context: Context) -> pb.ListNextActionsResponse:
        return await self.tasks.ListNextActions(request, context)

    async def ExplainScore(
        self, request: scores_pb2.ExplainScoreRequest, context: Context
    ) -> scores_pb2.ExplainScoreResponse:
        return await self.curation.ExplainScore(request, context)

    async def ReinforceMemory(
        self, request: scores_pb2.ReinforceMemoryRequest, context: Context
    ) -> scores_pb2.ReinforceMemoryResponse:
        return await self.curation.ReinforceMemory(request, context)

    async def DecayScores(
        self, request: scores_pb2.DecayScoresRequest, context: Context
    ) -> scores_pb2.DecayScoresResponse:
        return await self.curation.DecayScores(request, context)

    async def MergeMemories(
        self, request: scores_pb2.MergeMemoriesRequest, context: Context
    ) -> pb.MergeMemoriesResponse:
        return await self.curation.MergeMemories(request, context)

    async def ConsolidateMemories(
        self, request: scores_pb2.ConsolidateMemoriesRequest, context: Context
    ) -> scores_pb2.ConsolidateMemoriesResponse:
        return await self.curation.ConsolidateMemories(request, context)


@dataclass(kw_only=True, eq=False, slots=True)
class LinkService(rpc.LinkServiceServicer):
    """LinkService: links between memories, and the graph that they make."""

    links: LinkHandlers
    graph: GraphHandlers

    async def CreateLink(self, request: pb.CreateLinkRequest, context: Context) -> pb.CreateLinkResponse:
        return await self.links.CreateLink(request, context)

    async def BatchCreateLinks(
        self, request: pb.BatchCreateLinksRequest, context: Context
    ) -> pb.BatchCreateLinksResponse:
        return await self.links.BatchCreateLinks(request, context)

    async def UpsertLink(self, request: pb.UpsertLinkRequest, context: Context) -> pb.UpsertLinkResponse:
        return await self.links.UpsertLink(request, context)

    async def GetLink(self, request: pb.GetLinkRequest, context: Context) -> pb.GetLinkResponse:
        return await self.links.GetLink(request, context)

    async def UpdateLink(self, request: pb.UpdateLinkRequest, context: Context) -> pb.UpdateLinkResponse:
        return await self.links.UpdateLink(request, context)

    async def DeleteLink(self, request: pb.DeleteLinkRequest, context: Context) -> pb.DeleteLinkResponse:
        return await self.links.DeleteLink(request, context)

    async def ListLinks(self, request: pb.ListLinksRequest, context: Context) -> pb.ListLinksResponse:
        return await self.links.ListLinks(request, context)

    async def TraverseLinks(self, request: pb.TraverseLinksRequest, context: Context) -> pb.TraverseLinksResponse:
        return await self.graph.TraverseLinks(request, context)

    async def GetSubgraph(self, request: pb.GetSubgraphRequest, context: Context) -> pb.GetSubgraphResponse:
        return await self.graph.GetSubgraph(request, context)

    async def FindPaths(self, request: pb.FindPathsRequest, context: Context) -> pb.FindPathsResponse:
        return await self.graph.FindPaths(request, context)

    async def SpreadActivation(
        self, request: pb.SpreadActivationRequest, context: Context
    ) -> pb.SpreadActivationResponse:
        return await self.graph.SpreadActivation(request, context)

    async def SuggestLinks(self, request: pb.SuggestLinksRequest, context: Context) -> pb.SuggestLinksResponse:
        return await self.graph.SuggestLinks(request, context)


@dataclass(kw_only=True, eq=False, slots=True)
class BlockService(blocks_pb2_grpc.BlockServiceServicer):
    """BlockService: blocks that agents carry in every prompt."""

    blocks: BlockHandlers
    erasure: PurgeHandlers

    async def CreateBlock(
        self, request: blocks_pb2.CreateBlockRequest, context: Context
    ) -> blocks_pb2.CreateBlockResponse:
        return await self.blocks.CreateBlock(request, context)

    async def CreateBlockFromTemplate(
        self, request: blocks_pb2.CreateBlockFromTemplateRequest, context: Context
    ) -> blocks_pb2.CreateBlockFromTemplateResponse:
        return await self.blocks.CreateBlockFromTemplate(request, context)

    async def GetBlock(self, request: blocks_pb2.GetBlockRequest, context: Context) -> blocks_pb2.GetBlockResponse:
        return await self.blocks.GetBlock(request, context)

    async def ListBlocks(
        self, request: blocks_pb2.ListBlocksRequest, context: Context
    ) -> blocks_pb2.ListBlocksResponse:
        return await self.blocks.ListBlocks(request, context)

    async def UpdateBlock(
        self, request: blocks_pb2.UpdateBlockRequest, context: Context
    ) -> blocks_pb2.UpdateBlockResponse:
        return await self.blocks.UpdateBlock(request, context)

    async def DeleteBlock(
        self, request: blocks_pb2.DeleteBlockRequest, context: Context
    ) -> blocks_pb2.DeleteBlockResponse:
        return await self.blocks.DeleteBlock(request, context)

    async def UndeleteBlock(
        self, request: blocks_pb2.UndeleteBlockRequest, context: Context
    ) -> blocks_pb2.UndeleteBlockResponse:
        return await self.blocks.UndeleteBlock(request, context)

    async def PurgeBlock(
        self, request: blocks_pb2.PurgeBlockRequest, context: Context
    ) -> blocks_pb2.PurgeBlockResponse:
        return await self.erasure.PurgeBlock(request, context)

    async def AppendToBlock(
        self, request: blocks_pb2.AppendToBlockRequest, context: Context
    ) -> blocks_pb2.AppendToBlockResponse:
        return await self.blocks.AppendToBlock(request, context)

    async def ReplaceInBlock(
        self, request: blocks_pb2.ReplaceInBlockRequest, context: Context
    ) -> blocks_pb2.ReplaceInBlockResponse:
        return await self.blocks.ReplaceInBlock(request, context)

    async def InsertIntoBlock(
        self, request: blocks_pb2.InsertIntoBlockRequest, context: Context
    ) -> blocks_pb2.InsertIntoBlockResponse:
        return await self.blocks.InsertIntoBlock(request, context)

    async def AttachBlock(
        self, request: blocks_pb2.AttachBlockRequest, context: Context
    ) -> blocks_pb2.AttachBlockResponse:
        return await self.blocks.AttachBlock(request, context)

    async def DetachBlock(
        self, request: blocks_pb2.DetachBlockRequest, context: Context
    ) -> blocks_pb2.DetachBlockResponse:
        return await self.blocks.DetachBlock(request, context)

    async def ListBlockAgents(
        self, request: blocks_pb2.ListBlockAgentsRequest, context: Context
    ) -> blocks_pb2.ListBlockAgentsResponse:
        return await self.blocks.ListBlockAgents(request, context)

    async def ListAgentBlocks(
        self, request: blocks_pb2.ListAgentBlocksRequest, context: Context
    ) -> blocks_pb2.ListAgentBlocksResponse:
        return await self.blocks.ListAgentBlocks(request, context)

    async def CompileBlocks(
        self, request: blocks_pb2.CompileBlocksRequest, context: Context
    ) -> blocks_pb2.CompileBlocksResponse:
        return await self.blocks.CompileBlocks(request, context)

    async def ListBlockRevisions(
        self, request: blocks_pb2.ListBlockRevisionsRequest, context: Context
    ) -> blocks_pb2.ListBlockRevisionsResponse:
        return await self.blocks.ListBlockRevisions(request, context)

    async def RevertBlock(
        self, request: blocks_pb2.RevertBlockRequest, context: Context
    ) -> blocks_pb2.RevertBlockResponse:
        return await self.blocks.RevertBlock(request, context)


@dataclass(kw_only=True, eq=False, slots=True)
class CurationService(curation_pb2_grpc.CurationServiceServicer):
    """CurationService: trust in sources, conflicts, aliases and overviews."""

    source_trust: SourceTrustHandlers
    conflicts: ConflictHandlers
    aliases: AliasHandlers
    overview: OverviewHandlers

    async def SetSourceTrust(
        self, request: curation_pb2.SetSourceTrustRequest, context: Context
    ) -> curation_pb2.SetSourceTrustResponse:
        return await self.source_trust.SetSourceTrust(request, context)

    async def GetSourceTrust(
        self, request: curation_pb2.GetSourceTrustRequest, context: Context
    ) -> curation_pb2.GetSourceTrustResponse:
        return await self.source_trust.GetSourceTrust(request, context)

    async def ListSourceTrust(
        self, request: curation_pb2.ListSourceTrustRequest, context: Context
    ) -> curation_pb2.ListSourceTrustResponse:
        return await self.source_trust.ListSourceTrust(request, context)

    async def DeleteSourceTrust(
        self, request: curation_pb2.DeleteSourceTrustRequest, context: Context
    ) -> curation_pb2.DeleteSourceTrustResponse:
        return await self.source_trust.DeleteSourceTrust(request, context)

    async def ListConflicts(
        self, request: curation_pb2.ListConflictsRequest, context: Context
    ) -> curation_pb2.ListConflictsResponse:
        return await self.conflicts.ListConflicts(request, context)

    async def ResolveConflict(
        self, request: curation_pb2.ResolveConflictRequest, context: Context
    ) -> curation_pb2.ResolveConflictResponse:
        return await self.conflicts.ResolveConflict(request, context)

    async def ListConflictResolutions(
        self, request: curation_pb2.ListConflictResolutionsRequest, context: Context
    ) -> curation_pb2.ListConflictResolutionsResponse:
        return await self.conflicts.ListConflictResolutions(request, context)

    async def ResolveEntity(
        self, request: curation_pb2.ResolveEntityRequest, context: Context
    ) -> curation_pb2.ResolveEntityResponse:
        return await self.aliases.ResolveEntity(request, context)

    async def GetCanonical(
        self, request: curation_pb2.GetCanonicalRequest, context: Context
    ) -> curation_pb2.GetCanonicalResponse:
        return await self.aliases.GetCanonical(request, context)

    async def ListAliases(
        self, request: curation_pb2.ListAliasesRequest, context: Context
    ) -> curation_pb2.ListAliasesResponse:
        return await self.aliases.ListAliases(request, context)

    async def RemoveAlias(
        self, request: curation_pb2.RemoveAliasRequest, context: Context
    ) -> curation_pb2.RemoveAliasResponse:
        return await self.aliases.RemoveAlias(request, context)

    async def GetReviewQueue(
        self, request: curation_pb2.GetReviewQueueRequest, context: Context
    ) -> curation_pb2.GetReviewQueueResponse:
        return await self.overview.GetReviewQueue(request, context)

    async def GetTemporalClusters(
        self, request: curation_pb2.GetTemporalClustersRequest, context: Context
    ) -> curation_pb2.GetTemporalClustersResponse:
        return await self.overview.GetTemporalClusters(request, context)

    async def GetStatistics(
        self, request: curation_pb2.GetStatisticsRequest, context: Context
    ) -> curation_pb2.GetStatisticsResponse:
        return await self.overview.GetStatistics(request, context)


@dataclass(kw_only=True, eq=False, slots=True)
class HistoryService(history_pb2_grpc.HistoryServiceServicer):
    """HistoryService: event log, webhooks, access log and cold storage."""

    events: EventHandlers
    webhooks: WebhookHandlers
    access_log: AccessLogHandlers
    cold_storage: ArchiveHandlers

    async def ListChanges(
        self, request: history_pb2.ListChangesRequest, context: Context
    ) -> history_pb2.ListChangesResponse:
        return await self.events.ListChanges(request, context)

    async def WatchChanges(
        self, request: history_pb2.WatchChangesRequest, context: Context
    ) -> AsyncGenerator[history_pb2.WatchChangesResponse]:
        # The access log recognises a stream by its generator function.
        async with aclosing(self.events.WatchChanges(request, context)) as changes:
            async for change in changes:
                yield change

    async def CreateWebhook(
        self, request: webhooks_pb2.CreateWebhookRequest, context: Context
    ) -> webhooks_pb2.CreateWebhookResponse:
        return await self.webhooks.CreateWebhook(request, context)

    async def GetWebhook(
        self, request: webhooks_pb2.GetWebhookRequest, context: Context
    ) -> webhooks_pb2.GetWebhookResponse:
        return await self.webhooks.GetWebhook(request, context)

    async def ListWebhooks(
        self, request: webhooks_pb2.ListWebhooksRequest, context: Context
    ) -> webhooks_pb2.ListWebhooksResponse:
        return await self.webhooks.ListWebhooks(request, context)

    async def UpdateWebhook(
        self, request: webhooks_pb2.UpdateWebhookRequest, context: Context
    ) -> webhooks_pb2.UpdateWebhookResponse:
        return await self.webhooks.UpdateWebhook(request, context)

    async def DeleteWebhook(
        self, request: webhooks_pb2.DeleteWebhookRequest, context: Context
    ) -> webhooks_pb2.DeleteWebhookResponse:
        return await self.webhooks.DeleteWebhook(request, context)

    async def RotateWebhookSecret(
        self, request: webhooks_pb2.RotateWebhookSecretRequest, context: Context
    ) -> webhooks_pb2.RotateWebhookSecretResponse:
        return await self.webhooks.RotateWebhookSecret(request, context)

    async def TestWebhook(
        self, request: webhooks_pb2.TestWebhookRequest, context: Context
    ) -> webhooks_pb2.TestWebhookResponse:
        return await self.webhooks.TestWebhook(request, context)

    async def ListWebhookDeliveries(
        self, request: webhooks_pb2.ListWebhookDeliveriesRequest, context: Context
    ) -> webhooks_pb2.ListWebhookDeliveriesResponse:
        return await self.webhooks.ListWebhookDeliveries(request, context)

    async def RetryWebhookDelivery(
        self, request: webhooks_pb2.RetryWebhookDeliveryRequest, context: Context
    ) -> webhooks_pb2.RetryWebhookDeliveryResponse:
        return await self.webhooks.RetryWebhookDelivery(request, context)

    async def ArchiveMemories(
        self, request: archives_pb2.ArchiveMemoriesRequest, context: Context
    ) -> archives_pb2.ArchiveMemoriesResponse:
        return await self.cold_storage.ArchiveMemories(request, context)

    async def ListArchives(
        self, request: archives_pb2.ListArchivesRequest, context: Context
    ) -> archives_pb2.ListArchivesResponse:
        return await self.cold_storage.ListArchives(request, context)

    async def UnarchiveMemories(
        self, request: archives_pb2.UnarchiveMemoriesRequest, context: Context
    ) -> archives_pb2.UnarchiveMemoriesResponse:
        return await self.cold_storage.UnarchiveMemories(request, context)

    async def ListAccessLog(
        self, request: access_log_pb2.ListAccessLogRequest, context: Context
    ) -> access_log_pb2.ListAccessLogResponse:
        return await self.access_log.ListAccessLog(request, context)


@dataclass(kw_only=True, eq=False, slots=True)
class SnapshotService(snapshots_pb2_grpc.SnapshotServiceServicer):
    """SnapshotService: snapshots, export and import."""

    snapshots: SnapshotHandlers
    transfer: TransferHandlers

    async def CreateSnapshot(
        self, request: snapshots_pb2.CreateSnapshotRequest, context: Context
    ) -> snapshots_pb2.CreateSnapshotResponse:
        return await self.snapshots.CreateSnapshot(request, context)

    async def GetSnapshot(
        self, request: snapshots_pb2.GetSnapshotRequest, context: Context
    ) -> snapshots_pb2.GetSnapshotResponse:
        return await self.snapshots.GetSnapshot(request, context)

    async def ListSnapshots(
        self, request: snapshots_pb2.ListSnapshotsRequest, context: Context
    ) -> snapshots_pb2.ListSnapshotsResponse:
        return await self.snapshots.ListSnapshots(request, context)

    async def DiffSnapshots(
        self, request: snapshots_pb2.DiffSnapshotsRequest, context: Context
    ) -> snapshots_pb2.DiffSnapshotsResponse:
        return await self.snapshots.DiffSnapshots(request, context)

    async def RestoreSnapshot(
        self, request: snapshots_pb2.RestoreSnapshotRequest, context: Context
    ) -> snapshots_pb2.RestoreSnapshotResponse:
        return await self.snapshots.RestoreSnapshot(request, context)

    async def DeleteSnapshot(
        self, request: snapshots_pb2.DeleteSnapshotRequest, context: Context
    ) -> snapshots_pb2.DeleteSnapshotResponse:
        return await self.snapshots.DeleteSnapshot(request, context)

    async def ExportData(
        self, request: snapshots_pb2.ExportDataRequest, context: Context
    ) -> snapshots_pb2.ExportDataResponse:
        return await self.transfer.ExportData(request, context)

    async def ImportData(
        self, request: snapshots_pb2.ImportDataRequest, context: Context
    ) -> snapshots_pb2.ImportDataResponse:
        return await self.transfer.ImportData(request, context)


@dataclass(kw_only=True, eq=False, slots=True)
class MemoryInternalServicer(rpc.MemoryInternalServiceServicer):
    """MemoryInternalService: periodic work that the worker service requests."""

    maintenance: MaintenanceHandlers
    webhooks: WebhookHandlers

    async def EnsurePartitions(
        self, request: pb.EnsurePartitionsRequest, context: Context
    ) -> pb.EnsurePartitionsResponse:
        return await self.maintenance.EnsurePartitions(request, context)

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        return await self.maintenance.DeleteExpired(request, context)

    async def DeliverWebhooks(self, request: pb.DeliverWebhooksRequest, context: Context) -> pb.DeliverWebhooksResponse:
        return await self.webhooks.DeliverWebhooks(request, context)

    async def ContinueSnapshots(
        self, request: pb.ContinueSnapshotsRequest, context: Context
    ) -> pb.ContinueSnapshotsResponse:
        return await self.maintenance.ContinueSnapshots(request, context)

    async def ArchiveIdleMemories(
        self, request: pb.ArchiveIdleMemoriesRequest, context: Context
    ) -> pb.ArchiveIdleMemoriesResponse:
        return await self.maintenance.ArchiveIdleMemories(request, context)

    async def ApplyRetention(self, request: pb.ApplyRetentionRequest, context: Context) -> pb.ApplyRetentionResponse:
        return await self.maintenance.ApplyRetention(request, context)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        return await self.maintenance.PurgeTenant(request, context)

    async def DecayMemories(self, request: pb.DecayMemoriesRequest, context: Context) -> pb.DecayMemoriesResponse:
        return await self.maintenance.DecayMemories(request, context)

    async def ReindexMemories(self, request: pb.ReindexMemoriesRequest, context: Context) -> pb.ReindexMemoriesResponse:
        return await self.maintenance.ReindexMemories(request, context)
