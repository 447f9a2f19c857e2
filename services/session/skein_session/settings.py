"""What the operator may tell the session service."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from skein_kit.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class SessionSettings(Settings):
    """Settings of the session service: the field `x` is the variable SKEIN_SESSION_X."""

    prefix: ClassVar[str] = "SKEIN_SESSION_"

    # The longest content of a message that is taken, in characters.
    max_content_characters: int = 100_000
    # Vectors of up to so many messages are made before the call returns; those of larger batches soon after it.
    immediate_embeddings: int = 16
