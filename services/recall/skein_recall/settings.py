"""What the operator may tell the recall service."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from skein_kit.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecallSettings(Settings):
    """Settings of the recall service: the field `x` is the variable SKEIN_RECALL_X."""

    prefix: ClassVar[str] = "SKEIN_RECALL_"

    # Cores that one batch of the embedded model may use.
    embedder_threads: int = 1
    # Seconds that a query's embedding may take; after them the hits are found by words alone.
    embed_timeout_seconds: float = 1.0
    # Seconds that the registry of models is believed before it is read again.
    models_seconds: float = 5.0
