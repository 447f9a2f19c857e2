"""The servicers of recall's two gRPC services. Each RPC is delegated to the feature that handles it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein.recall.v1 import recall_pb2_grpc as rpc

if TYPE_CHECKING:
    from skein.recall.v1 import recall_pb2 as pb
    from skein_kit.calls.call import Context
    from skein_recall.index.rpc import IndexHandlers
    from skein_recall.maintenance.rpc import MaintenanceHandlers
    from skein_recall.models.rpc import ModelHandlers
    from skein_recall.providers.rpc import EmbedHandlers
    from skein_recall.quality.rpc import QualityHandlers
    from skein_recall.reindexes.rpc import ReindexHandlers
    from skein_recall.search.rpc import SearchHandlers


@dataclass(kw_only=True, eq=False, slots=True)
class RecallServicer(rpc.RecallServiceServicer):
    """RecallService: search, vectors of texts and items, and the registry of models."""

    search: SearchHandlers
    embed: EmbedHandlers
    index: IndexHandlers
    models: ModelHandlers
    reindexes: ReindexHandlers
    quality: QualityHandlers

    async def Recall(self, request: pb.RecallRequest, context: Context) -> pb.RecallResponse:
        return await self.search.Recall(request, context)

    async def FindSimilar(self, request: pb.FindSimilarRequest, context: Context) -> pb.FindSimilarResponse:
        return await self.search.FindSimilar(request, context)

    async def EmbedText(self, request: pb.EmbedTextRequest, context: Context) -> pb.EmbedTextResponse:
        return await self.embed.EmbedText(request, context)

    async def PutEmbedding(self, request: pb.PutEmbeddingRequest, context: Context) -> pb.PutEmbeddingResponse:
        return await self.index.PutEmbedding(request, context)

    async def BatchGetIndexStates(
        self, request: pb.BatchGetIndexStatesRequest, context: Context
    ) -> pb.BatchGetIndexStatesResponse:
        return await self.index.BatchGetIndexStates(request, context)

    async def ListEmbeddingModels(
        self, request: pb.ListEmbeddingModelsRequest, context: Context
    ) -> pb.ListEmbeddingModelsResponse:
        return await self.models.ListEmbeddingModels(request, context)

    async def RegisterEmbeddingModel(
        self, request: pb.RegisterEmbeddingModelRequest, context: Context
    ) -> pb.RegisterEmbeddingModelResponse:
        return await self.models.RegisterEmbeddingModel(request, context)

    async def DropModel(self, request: pb.DropModelRequest, context: Context) -> pb.DropModelResponse:
        return await self.models.DropModel(request, context)

    async def StartReindex(self, request: pb.StartReindexRequest, context: Context) -> pb.StartReindexResponse:
        return await self.reindexes.StartReindex(request, context)

    async def GetReindex(self, request: pb.GetReindexRequest, context: Context) -> pb.GetReindexResponse:
        return await self.reindexes.GetReindex(request, context)

    async def ListReindexes(self, request: pb.ListReindexesRequest, context: Context) -> pb.ListReindexesResponse:
        return await self.reindexes.ListReindexes(request, context)

    async def CancelReindex(self, request: pb.CancelReindexRequest, context: Context) -> pb.CancelReindexResponse:
        return await self.reindexes.CancelReindex(request, context)

    async def SetActiveModel(self, request: pb.SetActiveModelRequest, context: Context) -> pb.SetActiveModelResponse:
        return await self.reindexes.SetActiveModel(request, context)

    async def CompareModels(self, request: pb.CompareModelsRequest, context: Context) -> pb.CompareModelsResponse:
        return await self.quality.CompareModels(request, context)


@dataclass(kw_only=True, eq=False, slots=True)
class RecallInternalServicer(rpc.RecallInternalServiceServicer):
    """RecallInternalService: what memory, session and the worker call."""

    index: IndexHandlers
    reindexes: ReindexHandlers
    maintenance: MaintenanceHandlers

    async def IndexItems(self, request: pb.IndexItemsRequest, context: Context) -> pb.IndexItemsResponse:
        return await self.index.IndexItems(request, context)

    async def IndexBacklog(self, request: pb.IndexBacklogRequest, context: Context) -> pb.IndexBacklogResponse:
        return await self.index.IndexBacklog(request, context)

    async def ListDueReindexes(
        self, request: pb.ListDueReindexesRequest, context: Context
    ) -> pb.ListDueReindexesResponse:
        return await self.reindexes.ListDueReindexes(request, context)

    async def ContinueReindex(self, request: pb.ContinueReindexRequest, context: Context) -> pb.ContinueReindexResponse:
        return await self.reindexes.ContinueReindex(request, context)

    async def PurgeTenant(self, request: pb.PurgeTenantRequest, context: Context) -> pb.PurgeTenantResponse:
        return await self.maintenance.PurgeTenant(request, context)
