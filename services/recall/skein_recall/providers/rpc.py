"""The RPC that embeds texts: parse, one call, reply."""

from __future__ import annotations

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_recall.models.model import ModelRegistry, Purpose
from skein_recall.providers.provider import TextRejected
from skein_recall.providers.text_embedder import TextEmbedder

# Of all texts of one EmbedText together; the protos say so.
MAX_EMBED_CHARACTERS = 200_000
_PURPOSES = {
    pb.EMBED_PURPOSE_UNSPECIFIED: Purpose.PASSAGE,
    pb.EMBED_PURPOSE_PASSAGE: Purpose.PASSAGE,
    pb.EMBED_PURPOSE_QUERY: Purpose.QUERY,
}


class EmbedHandlers:
    """Vectors of texts."""

    def __init__(self, registry: ModelRegistry, embedder: TextEmbedder) -> None:
        self._registry = registry
        self._embedder = embedder

    async def EmbedText(self, request: pb.EmbedTextRequest, context: Context) -> pb.EmbedTextResponse:
        if sum(map(len, request.texts)) > MAX_EMBED_CHARACTERS:
            raise FieldInvalid(violations=[("texts", f"hold more than {MAX_EMBED_CHARACTERS} characters together")])
        model = await self._registry.active(caller_of(context).tenant_id)
        try:
            vectors = await self._embedder.embed_texts(model, request.texts, _PURPOSES[request.purpose])
        except TextRejected:
            what = "hold something that the model's endpoint does not accept"
            raise FieldInvalid(violations=[("texts", what)]) from None
        return pb.EmbedTextResponse(
            model=model.model, embeddings=[pb.Embedding(values=vector.tolist()) for vector in vectors]
        )
