"""Settings of the recall service."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from skein_kit.settings import SettingInvalid, Settings, advanced
from skein_recall.embedded_model.bulk_threads import LOWEST_PRIORITY


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecallSettings(Settings):
    """Settings of the recall service: the field `x` is the variable SKEIN_RECALL_X."""

    prefix: ClassVar[str] = "SKEIN_RECALL_"

    # Cores that one batch of the embedded model may use.
    embedder_threads: int = 1
    # Most threads that embed bulk requests, one for each core that the process may use. Their priority is low, so they
    # take cores that are idle. Where threads have no priorities (macOS) there is one.
    embedder_bulk_threads: int = 4
    # Added to the nice value of the threads for bulk requests: with 10 a call gets ten times their share of a busy
    # core, with 0 the same. Less, where other work keeps the cores busy and vectors come too late.
    embedder_bulk_nice: int = advanced(10)
    # Whether the embedded model's vectors of tokens are stored and compared: better hits first, for 32 bytes a token.
    token_vectors: bool = True
    # Timeout of the embedding of a query, in seconds; after it the search uses words alone. More, for a slow endpoint.
    embed_timeout_seconds: float = advanced(1.0)
    # Longest wait of a search for the vectors of documents that its tenant wrote just before, in seconds. More, for a
    # slow endpoint; 0: searches never wait.
    vectors_wait_seconds: float = advanced(0.25)
    # Seconds that the registry of models is cached. Less, where a change of models should begin sooner.
    models_seconds: float = advanced(5.0)
    # Size of the vector cache of a process, in megabytes, for the tenants that search most; the term cache gets a
    # quarter as much in addition. 0: neither. More, where more tenants search than fit.
    cache_megabytes: int = 1024
    # Fewest chunks of a tenant in the vector cache; for fewer the index is as fast. Less, on a slow database.
    cache_min_chunks: int = advanced(100)
    # Chunks of a tenant in the vector cache beyond which its codes are approximate, if they find enough: a fifth of the
    # memory and of the time. They may also be so where exact ones find no room.
    cache_exact_chunks: int = advanced(250_000)
    # Whole months to keep receipts of answers; 0: without a limit.
    receipt_months: int = 24
    # Seconds until every process of the cluster knows a change of the active and followed models; not below the time
    # that the registry is cached. More, where clocks of machines differ.
    settle_seconds: float = advanced(15.0)

    def __post_init__(self) -> None:
        """Raise SettingInvalid when registries may be cached for longer than the settling takes.

        And when threads that embed bulk requests would come before those that serve calls.
        """
        if not 0 <= self.embedder_bulk_nice <= LOWEST_PRIORITY:
            message = f"Set SKEIN_ADVANCED_RECALL_EMBEDDER_BULK_NICE to a number from 0 to {LOWEST_PRIORITY}."
            raise SettingInvalid(message)
        if self.settle_seconds < self.models_seconds:
            message = "Set SKEIN_ADVANCED_RECALL_SETTLE_SECONDS to at least SKEIN_ADVANCED_RECALL_MODELS_SECONDS."
            raise SettingInvalid(message)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingsSettings(Settings):
    """API keys of the endpoints that compute vectors."""

    prefix: ClassVar[str] = "SKEIN_EMBEDDINGS_"

    # The key of models without one of their own in SKEIN_EMBEDDINGS_API_KEY_<MODEL>.
    api_key: str = dataclasses.field(default="", repr=False)
