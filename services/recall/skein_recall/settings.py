"""What the operator may tell the recall service."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from skein_kit.settings import SettingInvalid, Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecallSettings(Settings):
    """Settings of the recall service: the field `x` is the variable SKEIN_RECALL_X."""

    prefix: ClassVar[str] = "SKEIN_RECALL_"

    # Cores that one batch of the embedded model may use.
    embedder_threads: int = 1
    # Seconds that a query's embedding may take; after them the hits are found by words alone.
    embed_timeout_seconds: float = 1.0
    # Seconds that a search waits for the vectors of what its tenant wrote just before; after them it is done without.
    vectors_wait_seconds: float = 0.25
    # Seconds that the registry of models is believed before it is read again.
    models_seconds: float = 5.0
    # Megabytes of vectors that a process holds in memory, of the tenants that search most; 0 for none.
    held_megabytes: int = 1024
    # Chunks that a tenant must have for its vectors to be held: fewer are searched as fast by the index.
    held_least_chunks: int = 1000
    # Share of the searches that are repeated exactly in the background, to measure how good they are; 0 for none.
    sample_share: float = 0.01
    # Texts that a reindex gives to a model in a second, over all processes, unless it says otherwise.
    reindex_texts_per_second: float = 100.0
    # Seconds after which every process of the cluster knows that a model is followed, or no longer in force.
    settle_seconds: float = 15.0

    def __post_init__(self) -> None:
        """Refuse to take for known what some process may not know yet."""
        if self.settle_seconds < self.models_seconds:
            message = "SKEIN_RECALL_SETTLE_SECONDS should be no less than SKEIN_RECALL_MODELS_SECONDS."
            raise SettingInvalid(message)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingsSettings(Settings):
    """What endpoints that make vectors are asked with."""

    prefix: ClassVar[str] = "SKEIN_EMBEDDINGS_"

    # The key for every endpoint of a model that has none of its own in SKEIN_EMBEDDINGS_API_KEY_<MODEL>.
    api_key: str = dataclasses.field(default="", repr=False)
