"""What the operator may tell the memory service."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from skein_kit.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemorySettings(Settings):
    """Settings of the memory service: the field `x` is the variable SKEIN_MEMORY_X."""

    prefix: ClassVar[str] = "SKEIN_MEMORY_"

    # The longest content that is taken, in characters.
    max_content_characters: int = 100_000
    # Vectors of up to so many memories are made before the call returns; those of larger writes are made soon after.
    immediate_embeddings: int = 16
