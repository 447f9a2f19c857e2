"""The methods of each gRPC service of memory, each that of the feature which answers it."""

from __future__ import annotations

from skein.memory.v1.blocks_methods import BlockServiceMethods
from skein.memory.v1.curation_methods import CurationServiceMethods
from skein.memory.v1.history_methods import HistoryServiceMethods
from skein.memory.v1.memory_methods import LinkServiceMethods, MemoryInternalServiceMethods, MemoryServiceMethods
from skein.memory.v1.snapshots_methods import SnapshotServiceMethods
from skein_memory.access_log.rpc import AccessLogHandlers
from skein_memory.aliases.rpc import AliasHandlers
from skein_memory.approvals.rpc import ApprovalHandlers, PendingWriteHandlers
from skein_memory.blocks.rpc import BlockHandlers
from skein_memory.cold_storage.rpc import ArchiveHandlers
from skein_memory.conflicts.rpc import ConflictHandlers
from skein_memory.curation.rpc import CurationHandlers
from skein_memory.erasure.rpc import PurgeHandlers
from skein_memory.events.rpc import EventHandlers
from skein_memory.facts.rpc import FactHandlers
from skein_memory.graph.rpc import GraphHandlers
from skein_memory.lineage.rpc import LineageHandlers
from skein_memory.links.rpc import LinkHandlers
from skein_memory.listing.rpc import ListingHandlers
from skein_memory.maintenance.due_tenants import DueTenantHandlers
from skein_memory.maintenance.rpc import MaintenanceHandlers
from skein_memory.memories.rpc import MemoryHandlers
from skein_memory.moves.rpc import MoveHandlers
from skein_memory.overview.rpc import OverviewHandlers
from skein_memory.pages.rpc import PageHandlers
from skein_memory.snapshots.rpc import SnapshotHandlers
from skein_memory.source_trust.rpc import SourceTrustHandlers
from skein_memory.tasks.rpc import TaskHandlers
from skein_memory.transfer.rpc import TransferHandlers
from skein_memory.vault.rpc import VaultHandlers
from skein_memory.webhooks.rpc import WebhookHandlers


def memory_service(
    *,
    memories: MemoryHandlers,
    listing: ListingHandlers,
    erasure: PurgeHandlers,
    vault: VaultHandlers,
    tasks: TaskHandlers,
    curation: CurationHandlers,
    moves: MoveHandlers,
) -> MemoryServiceMethods:
    """MemoryService: create, read, change and purge memories."""
    return MemoryServiceMethods(
        CreateMemory=memories.CreateMemory,
        BatchCreateMemories=memories.BatchCreateMemories,
        GetMemory=listing.GetMemory,
        BatchGetMemories=memories.BatchGetMemories,
        ListMemories=listing.ListMemories,
        UpdateMemory=memories.UpdateMemory,
        DeleteMemory=memories.DeleteMemory,
        UndeleteMemory=memories.UndeleteMemory,
        ListMemoryVersions=listing.ListMemoryVersions,
        ExportMemories=erasure.ExportMemories,
        PurgeMemories=erasure.PurgeMemories,
        DeleteMemories=erasure.DeleteMemories,
        ListMemoryTypes=memories.ListMemoryTypes,
        RevealSecret=vault.RevealSecret,
        RotateTenantKey=vault.RotateTenantKey,
        PromoteMemory=tasks.PromoteMemory,
        DemoteMemory=tasks.DemoteMemory,
        ListTasks=tasks.ListTasks,
        UpdateTaskStatus=tasks.UpdateTaskStatus,
        CompleteTask=tasks.CompleteTask,
        ReopenTask=tasks.ReopenTask,
        SetObjective=tasks.SetObjective,
        ListObjectives=tasks.ListObjectives,
        ListNextActions=tasks.ListNextActions,
        ExplainScore=curation.ExplainScore,
        ReinforceMemory=curation.ReinforceMemory,
        DecayScores=curation.DecayScores,
        MergeMemories=curation.MergeMemories,
        MoveMemories=moves.MoveMemories,
        ConsolidateMemories=curation.ConsolidateMemories,
    )


def link_service(
    *,
    links: LinkHandlers,
    graph: GraphHandlers,
) -> LinkServiceMethods:
    """LinkService: links between memories, and the graph that they make."""
    return LinkServiceMethods(
        CreateLink=links.CreateLink,
        BatchCreateLinks=links.BatchCreateLinks,
        UpsertLink=links.UpsertLink,
        GetLink=links.GetLink,
        UpdateLink=links.UpdateLink,
        DeleteLink=links.DeleteLink,
        ListLinks=links.ListLinks,
        TraverseLinks=graph.TraverseLinks,
        GetSubgraph=graph.GetSubgraph,
        FindPaths=graph.FindPaths,
        SpreadActivation=graph.SpreadActivation,
        SuggestLinks=graph.SuggestLinks,
    )


def block_service(
    *,
    blocks: BlockHandlers,
    erasure: PurgeHandlers,
    moves: MoveHandlers,
) -> BlockServiceMethods:
    """BlockService: blocks that agents carry in every prompt."""
    return BlockServiceMethods(
        CreateBlock=blocks.CreateBlock,
        CreateBlockFromTemplate=blocks.CreateBlockFromTemplate,
        GetBlock=blocks.GetBlock,
        ListBlocks=blocks.ListBlocks,
        UpdateBlock=blocks.UpdateBlock,
        DeleteBlock=blocks.DeleteBlock,
        UndeleteBlock=blocks.UndeleteBlock,
        PurgeBlock=erasure.PurgeBlock,
        AppendToBlock=blocks.AppendToBlock,
        ReplaceInBlock=blocks.ReplaceInBlock,
        InsertIntoBlock=blocks.InsertIntoBlock,
        AttachBlock=blocks.AttachBlock,
        DetachBlock=blocks.DetachBlock,
        ListBlockAgents=blocks.ListBlockAgents,
        ListAgentBlocks=blocks.ListAgentBlocks,
        CompileBlocks=blocks.CompileBlocks,
        ListBlockRevisions=blocks.ListBlockRevisions,
        RevertBlock=blocks.RevertBlock,
        MoveBlock=moves.MoveBlock,
    )


def curation_service(
    *,
    source_trust: SourceTrustHandlers,
    conflicts: ConflictHandlers,
    aliases: AliasHandlers,
    overview: OverviewHandlers,
    lineage: LineageHandlers,
    approvals: ApprovalHandlers,
    pages: PageHandlers,
) -> CurationServiceMethods:
    """CurationService: trust in sources, conflicts, aliases, lineages, approvals, overviews and pages."""
    return CurationServiceMethods(
        SetSourceTrust=source_trust.SetSourceTrust,
        GetSourceTrust=source_trust.GetSourceTrust,
        ListSourceTrust=source_trust.ListSourceTrust,
        DeleteSourceTrust=source_trust.DeleteSourceTrust,
        ListConflicts=conflicts.ListConflicts,
        ResolveConflict=conflicts.ResolveConflict,
        ListConflictResolutions=conflicts.ListConflictResolutions,
        ResolveEntity=aliases.ResolveEntity,
        GetCanonicalMemory=aliases.GetCanonicalMemory,
        ListAliases=aliases.ListAliases,
        DeleteAlias=aliases.DeleteAlias,
        GetLineage=lineage.GetLineage,
        ListImpacted=lineage.ListImpacted,
        ListPendingMemories=approvals.ListPendingMemories,
        ListRefusedFacts=approvals.ListRefusedFacts,
        ApproveMemory=approvals.ApproveMemory,
        RefuseMemory=approvals.RefuseMemory,
        GetReviewQueue=overview.GetReviewQueue,
        GetTemporalClusters=overview.GetTemporalClusters,
        GetStatistics=overview.GetStatistics,
        CreatePage=pages.CreatePage,
        GetPage=pages.GetPage,
        ListPages=pages.ListPages,
        UpdatePage=pages.UpdatePage,
        DeletePage=pages.DeletePage,
    )


def history_service(
    *,
    events: EventHandlers,
    webhooks: WebhookHandlers,
    access_log: AccessLogHandlers,
    cold_storage: ArchiveHandlers,
) -> HistoryServiceMethods:
    """HistoryService: event log, webhooks, access log and cold storage."""
    return HistoryServiceMethods(
        ListChanges=events.ListChanges,
        StreamChanges=events.StreamChanges,
        CreateWebhook=webhooks.CreateWebhook,
        GetWebhook=webhooks.GetWebhook,
        ListWebhooks=webhooks.ListWebhooks,
        UpdateWebhook=webhooks.UpdateWebhook,
        DeleteWebhook=webhooks.DeleteWebhook,
        RotateWebhookSecret=webhooks.RotateWebhookSecret,
        TestWebhook=webhooks.TestWebhook,
        ListWebhookDeliveries=webhooks.ListWebhookDeliveries,
        RetryWebhookDelivery=webhooks.RetryWebhookDelivery,
        ArchiveMemories=cold_storage.ArchiveMemories,
        ListArchives=cold_storage.ListArchives,
        UnarchiveMemories=cold_storage.UnarchiveMemories,
        ListAccessLog=access_log.ListAccessLog,
    )


def snapshot_service(
    *,
    snapshots: SnapshotHandlers,
    transfer: TransferHandlers,
) -> SnapshotServiceMethods:
    """SnapshotService: snapshots, export and import."""
    return SnapshotServiceMethods(
        CreateSnapshot=snapshots.CreateSnapshot,
        GetSnapshot=snapshots.GetSnapshot,
        ListSnapshots=snapshots.ListSnapshots,
        DiffSnapshots=snapshots.DiffSnapshots,
        RestoreSnapshot=snapshots.RestoreSnapshot,
        DeleteSnapshot=snapshots.DeleteSnapshot,
        ExportData=transfer.ExportData,
        ImportData=transfer.ImportData,
    )


def memory_internal_service(
    *,
    maintenance: MaintenanceHandlers,
    due_tenants: DueTenantHandlers,
    webhooks: WebhookHandlers,
    lineage: LineageHandlers,
    access_log: AccessLogHandlers,
    facts: FactHandlers,
    pending_writes: PendingWriteHandlers,
    vault: VaultHandlers,
) -> MemoryInternalServiceMethods:
    """MemoryInternalService: periodic work that the worker service requests, and calls that the gateway refused."""
    return MemoryInternalServiceMethods(
        EnsurePartitions=maintenance.EnsurePartitions,
        ListDueTenants=due_tenants.ListDueTenants,
        DeleteExpired=maintenance.DeleteExpired,
        DeliverWebhooks=webhooks.DeliverWebhooks,
        ContinueSnapshots=maintenance.ContinueSnapshots,
        ArchiveIdleMemories=maintenance.ArchiveIdleMemories,
        ApplyRetention=maintenance.ApplyRetention,
        RetractFacts=facts.RetractFacts,
        KeepRefusedFacts=pending_writes.KeepRefusedFacts,
        RevealModelKey=vault.RevealModelKey,
        PurgeFacts=facts.PurgeFacts,
        PurgeTenant=maintenance.PurgeTenant,
        RescoreTrust=lineage.RescoreTrust,
        DecayMemories=maintenance.DecayMemories,
        ReindexMemories=maintenance.ReindexMemories,
        RecordRefusedCalls=access_log.RecordRefusedCalls,
    )
