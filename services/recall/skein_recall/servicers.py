"""One class for each gRPC service of recall: it names the feature that answers each RPC."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_recall.index.rpc import IndexHandlers
    from skein_recall.maintenance.rpc import MaintenanceHandlers
    from skein_recall.models.rpc import ModelHandlers
    from skein_recall.providers.rpc import EmbedHandlers
    from skein_recall.quality.rpc import QualityHandlers
    from skein_recall.receipts.rpc import ReceiptHandlers
    from skein_recall.reindexes.rpc import ReindexHandlers
    from skein_recall.search.rpc import SearchHandlers


class RecallServicer:
    """RecallService: search, receipts, vectors of texts and items, and the registry of models."""

    def __init__(
        self,
        *,
        search: SearchHandlers,
        embed: EmbedHandlers,
        index: IndexHandlers,
        models: ModelHandlers,
        reindexes: ReindexHandlers,
        quality: QualityHandlers,
        receipts: ReceiptHandlers,
    ) -> None:
        self.Recall = search.Recall
        self.FindSimilar = search.FindSimilar
        self.GetRecallReceipt = receipts.GetRecallReceipt
        self.ListRecallReceipts = receipts.ListRecallReceipts
        self.ReplayRecall = receipts.ReplayRecall
        self.DiffRecall = receipts.DiffRecall
        self.EmbedText = embed.EmbedText
        self.PutEmbedding = index.PutEmbedding
        self.BatchGetIndexStates = index.BatchGetIndexStates
        self.ListEmbeddingModels = models.ListEmbeddingModels
        self.RegisterEmbeddingModel = models.RegisterEmbeddingModel
        self.DeleteEmbeddingModel = models.DeleteEmbeddingModel
        self.StartReindex = reindexes.StartReindex
        self.GetReindex = reindexes.GetReindex
        self.ListReindexes = reindexes.ListReindexes
        self.CancelReindex = reindexes.CancelReindex
        self.ActivateEmbeddingModel = reindexes.ActivateEmbeddingModel
        self.CompareEmbeddingModels = quality.CompareEmbeddingModels


class RecallInternalServicer:
    """RecallInternalService: what memory, session, the gateway and the worker call."""

    def __init__(
        self,
        *,
        index: IndexHandlers,
        reindexes: ReindexHandlers,
        maintenance: MaintenanceHandlers,
        receipts: ReceiptHandlers,
    ) -> None:
        self.IndexItems = index.IndexItems
        self.ListDueTenants = index.ListDueTenants
        self.IndexBacklog = index.IndexBacklog
        self.ListDueReindexes = reindexes.ListDueReindexes
        self.ContinueReindex = reindexes.ContinueReindex
        self.PurgeTenant = maintenance.PurgeTenant
        self.RecordContexts = receipts.RecordContexts
