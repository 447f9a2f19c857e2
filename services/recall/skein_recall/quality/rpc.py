"""The RPC that compares models: parse, one call, reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_recall.quality import convert

if TYPE_CHECKING:
    from skein.recall.v1 import recall_pb2 as pb
    from skein_kit.calls.call import Context
    from skein_recall.quality.comparison import ModelComparer

# Share of a call's time that the comparison may take.
_SHARE_OF_TIME = 0.8


class QualityHandlers:
    """The quality of a model's hits."""

    def __init__(self, comparer: ModelComparer) -> None:
        self._comparer = comparer

    async def CompareModels(self, request: pb.CompareModelsRequest, context: Context) -> pb.CompareModelsResponse:
        comparison = convert.comparison_request(request)
        active, agreements, truncated = await self._comparer.compare(
            comparison, context.time_remaining() * _SHARE_OF_TIME
        )
        return convert.comparison(comparison, active, agreements, truncated=truncated)
