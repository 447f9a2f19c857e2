"""The methods of each gRPC service of recall, each that of the feature which answers it."""

from __future__ import annotations

from skein.recall.v1.recall_methods import RecallInternalServiceMethods, RecallServiceMethods
from skein_recall.index.rpc import IndexHandlers
from skein_recall.maintenance.store import MaintenanceHandlers
from skein_recall.models.rpc import ModelHandlers
from skein_recall.providers.rpc import EmbedHandlers
from skein_recall.quality.rpc import QualityHandlers
from skein_recall.receipts.rpc import ReceiptHandlers
from skein_recall.reindexes.rpc import ReindexHandlers
from skein_recall.search.rpc import SearchHandlers
from skein_recall.usage.rpc import UsageHandlers


def recall_service(
    *,
    search: SearchHandlers,
    embed: EmbedHandlers,
    index: IndexHandlers,
    models: ModelHandlers,
    reindexes: ReindexHandlers,
    quality: QualityHandlers,
    receipts: ReceiptHandlers,
    usage: UsageHandlers,
) -> RecallServiceMethods:
    """RecallService: search, receipts, vectors of texts and items, and the registry of models."""
    return RecallServiceMethods(
        Recall=search.Recall,
        FindSimilar=search.FindSimilar,
        GetRecallReceipt=receipts.GetRecallReceipt,
        ListRecallReceipts=receipts.ListRecallReceipts,
        ReplayRecall=receipts.ReplayRecall,
        DiffRecall=receipts.DiffRecall,
        GetSearchCounts=usage.GetSearchCounts,
        EmbedText=embed.EmbedText,
        PutEmbedding=index.PutEmbedding,
        BatchGetIndexStates=index.BatchGetIndexStates,
        ListEmbeddingModels=models.ListEmbeddingModels,
        RegisterEmbeddingModel=models.RegisterEmbeddingModel,
        DeleteEmbeddingModel=models.DeleteEmbeddingModel,
        StartReindex=reindexes.StartReindex,
        GetReindex=reindexes.GetReindex,
        ListReindexes=reindexes.ListReindexes,
        CancelReindex=reindexes.CancelReindex,
        ActivateEmbeddingModel=reindexes.ActivateEmbeddingModel,
        OfferEmbeddingModel=reindexes.OfferEmbeddingModel,
        CompareEmbeddingModels=quality.CompareEmbeddingModels,
    )


def recall_internal_service(
    *,
    index: IndexHandlers,
    reindexes: ReindexHandlers,
    maintenance: MaintenanceHandlers,
    receipts: ReceiptHandlers,
    search: SearchHandlers,
) -> RecallInternalServiceMethods:
    """RecallInternalService: what memory, session, the gateway and the worker call."""
    return RecallInternalServiceMethods(
        IndexItems=index.IndexItems,
        ListDueTenants=index.ListDueTenants,
        IndexBacklog=index.IndexBacklog,
        ListDueReindexes=reindexes.ListDueReindexes,
        ContinueReindex=reindexes.ContinueReindex,
        PurgeTenant=maintenance.PurgeTenant,
        RecordContexts=receipts.RecordContexts,
        CheckItems=search.CheckItems,
    )
