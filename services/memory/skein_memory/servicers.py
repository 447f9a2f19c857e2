"""One class for each gRPC service of memory: it names the feature that answers each RPC."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_memory.access_log.rpc import AccessLogHandlers
    from skein_memory.aliases.rpc import AliasHandlers
    from skein_memory.approvals.rpc import ApprovalHandlers
    from skein_memory.blocks.rpc import BlockHandlers
    from skein_memory.cold_storage.rpc import ArchiveHandlers
    from skein_memory.conflicts.rpc import ConflictHandlers
    from skein_memory.curation.rpc import CurationHandlers
    from skein_memory.erasure.rpc import PurgeHandlers
    from skein_memory.events.rpc import EventHandlers
    from skein_memory.graph.rpc import GraphHandlers
    from skein_memory.lineage.rpc import LineageHandlers
    from skein_memory.links.rpc import LinkHandlers
    from skein_memory.listing.rpc import ListingHandlers
    from skein_memory.maintenance.due_tenants import DueTenantHandlers
    from skein_memory.maintenance.rpc import MaintenanceHandlers
    from skein_memory.memories.rpc import MemoryHandlers
    from skein_memory.overview.rpc import OverviewHandlers
    from skein_memory.snapshots.rpc import SnapshotHandlers
    from skein_memory.source_trust.rpc import SourceTrustHandlers
    from skein_memory.tasks.rpc import TaskHandlers
    from skein_memory.transfer.rpc import TransferHandlers
    from skein_memory.vault.rpc import VaultHandlers
    from skein_memory.webhooks.rpc import WebhookHandlers


class MemoryService:
    """MemoryService: create, read, change and purge memories."""

    def __init__(
        self,
        *,
        memories: MemoryHandlers,
        listing: ListingHandlers,
        erasure: PurgeHandlers,
        vault: VaultHandlers,
        tasks: TaskHandlers,
        curation: CurationHandlers,
    ) -> None:
        self.CreateMemory = memories.CreateMemory
        self.BatchCreateMemories = memories.BatchCreateMemories
        self.GetMemory = listing.GetMemory
        self.BatchGetMemories = memories.BatchGetMemories
        self.ListMemories = listing.ListMemories
        self.UpdateMemory = memories.UpdateMemory
        self.DeleteMemory = memories.DeleteMemory
        self.UndeleteMemory = memories.UndeleteMemory
        self.ListMemoryVersions = listing.ListMemoryVersions
        self.ExportMemories = erasure.ExportMemories
        self.PurgeMemories = erasure.PurgeMemories
        self.DeleteMemories = erasure.DeleteMemories
        self.ListMemoryTypes = memories.ListMemoryTypes
        self.RevealSecret = vault.RevealSecret
        self.RotateTenantKey = vault.RotateTenantKey
        self.PromoteMemory = tasks.PromoteMemory
        self.DemoteMemory = tasks.DemoteMemory
        self.ListTasks = tasks.ListTasks
        self.UpdateTaskStatus = tasks.UpdateTaskStatus
        self.CompleteTask = tasks.CompleteTask
        self.ReopenTask = tasks.ReopenTask
        self.SetObjective = tasks.SetObjective
        self.ListObjectives = tasks.ListObjectives
        self.ListNextActions = tasks.ListNextActions
        self.ExplainScore = curation.ExplainScore
        self.ReinforceMemory = curation.ReinforceMemory
        self.DecayScores = curation.DecayScores
        self.MergeMemories = curation.MergeMemories
        self.ConsolidateMemories = curation.ConsolidateMemories


class LinkService:
    """LinkService: links between memories, and the graph that they make."""

    def __init__(self, *, links: LinkHandlers, graph: GraphHandlers) -> None:
        self.CreateLink = links.CreateLink
        self.BatchCreateLinks = links.BatchCreateLinks
        self.UpsertLink = links.UpsertLink
        self.GetLink = links.GetLink
        self.UpdateLink = links.UpdateLink
        self.DeleteLink = links.DeleteLink
        self.ListLinks = links.ListLinks
        self.TraverseLinks = graph.TraverseLinks
        self.GetSubgraph = graph.GetSubgraph
        self.FindPaths = graph.FindPaths
        self.SpreadActivation = graph.SpreadActivation
        self.SuggestLinks = graph.SuggestLinks


class BlockService:
    """BlockService: blocks that agents carry in every prompt."""

    def __init__(self, *, blocks: BlockHandlers, erasure: PurgeHandlers) -> None:
        self.CreateBlock = blocks.CreateBlock
        self.CreateBlockFromTemplate = blocks.CreateBlockFromTemplate
        self.GetBlock = blocks.GetBlock
        self.ListBlocks = blocks.ListBlocks
        self.UpdateBlock = blocks.UpdateBlock
        self.DeleteBlock = blocks.DeleteBlock
        self.UndeleteBlock = blocks.UndeleteBlock
        self.PurgeBlock = erasure.PurgeBlock
        self.AppendToBlock = blocks.AppendToBlock
        self.ReplaceInBlock = blocks.ReplaceInBlock
        self.InsertIntoBlock = blocks.InsertIntoBlock
        self.AttachBlock = blocks.AttachBlock
        self.DetachBlock = blocks.DetachBlock
        self.ListBlockAgents = blocks.ListBlockAgents
        self.ListAgentBlocks = blocks.ListAgentBlocks
        self.CompileBlocks = blocks.CompileBlocks
        self.ListBlockRevisions = blocks.ListBlockRevisions
        self.RevertBlock = blocks.RevertBlock


class CurationService:
    """CurationService: trust in sources, conflicts, aliases, lineages, approvals and overviews."""

    def __init__(
        self,
        *,
        source_trust: SourceTrustHandlers,
        conflicts: ConflictHandlers,
        aliases: AliasHandlers,
        overview: OverviewHandlers,
        lineage: LineageHandlers,
        approvals: ApprovalHandlers,
    ) -> None:
        self.SetSourceTrust = source_trust.SetSourceTrust
        self.GetSourceTrust = source_trust.GetSourceTrust
        self.ListSourceTrust = source_trust.ListSourceTrust
        self.DeleteSourceTrust = source_trust.DeleteSourceTrust
        self.ListConflicts = conflicts.ListConflicts
        self.ResolveConflict = conflicts.ResolveConflict
        self.ListConflictResolutions = conflicts.ListConflictResolutions
        self.ResolveEntity = aliases.ResolveEntity
        self.GetCanonicalMemory = aliases.GetCanonicalMemory
        self.ListAliases = aliases.ListAliases
        self.DeleteAlias = aliases.DeleteAlias
        self.GetLineage = lineage.GetLineage
        self.ListImpacted = lineage.ListImpacted
        self.ListPendingMemories = approvals.ListPendingMemories
        self.ApproveMemory = approvals.ApproveMemory
        self.RefuseMemory = approvals.RefuseMemory
        self.GetReviewQueue = overview.GetReviewQueue
        self.GetTemporalClusters = overview.GetTemporalClusters
        self.GetStatistics = overview.GetStatistics


class HistoryService:
    """HistoryService: event log, webhooks, access log and cold storage."""

    def __init__(
        self,
        *,
        events: EventHandlers,
        webhooks: WebhookHandlers,
        access_log: AccessLogHandlers,
        cold_storage: ArchiveHandlers,
    ) -> None:
        self.ListChanges = events.ListChanges
        self.StreamChanges = events.StreamChanges
        self.CreateWebhook = webhooks.CreateWebhook
        self.GetWebhook = webhooks.GetWebhook
        self.ListWebhooks = webhooks.ListWebhooks
        self.UpdateWebhook = webhooks.UpdateWebhook
        self.DeleteWebhook = webhooks.DeleteWebhook
        self.RotateWebhookSecret = webhooks.RotateWebhookSecret
        self.TestWebhook = webhooks.TestWebhook
        self.ListWebhookDeliveries = webhooks.ListWebhookDeliveries
        self.RetryWebhookDelivery = webhooks.RetryWebhookDelivery
        self.ArchiveMemories = cold_storage.ArchiveMemories
        self.ListArchives = cold_storage.ListArchives
        self.UnarchiveMemories = cold_storage.UnarchiveMemories
        self.ListAccessLog = access_log.ListAccessLog


class SnapshotService:
    """SnapshotService: snapshots, export and import."""

    def __init__(self, *, snapshots: SnapshotHandlers, transfer: TransferHandlers) -> None:
        self.CreateSnapshot = snapshots.CreateSnapshot
        self.GetSnapshot = snapshots.GetSnapshot
        self.ListSnapshots = snapshots.ListSnapshots
        self.DiffSnapshots = snapshots.DiffSnapshots
        self.RestoreSnapshot = snapshots.RestoreSnapshot
        self.DeleteSnapshot = snapshots.DeleteSnapshot
        self.ExportData = transfer.ExportData
        self.ImportData = transfer.ImportData


class MemoryInternalServicer:
    """MemoryInternalService: periodic work that the worker service requests."""

    def __init__(
        self,
        *,
        maintenance: MaintenanceHandlers,
        due_tenants: DueTenantHandlers,
        webhooks: WebhookHandlers,
        lineage: LineageHandlers,
    ) -> None:
        self.EnsurePartitions = maintenance.EnsurePartitions
        self.ListDueTenants = due_tenants.ListDueTenants
        self.DeleteExpired = maintenance.DeleteExpired
        self.DeliverWebhooks = webhooks.DeliverWebhooks
        self.ContinueSnapshots = maintenance.ContinueSnapshots
        self.ArchiveIdleMemories = maintenance.ArchiveIdleMemories
        self.ApplyRetention = maintenance.ApplyRetention
        self.PurgeTenant = maintenance.PurgeTenant
        self.RescoreTrust = lineage.RescoreTrust
        self.DecayMemories = maintenance.DecayMemories
        self.ReindexMemories = maintenance.ReindexMemories
