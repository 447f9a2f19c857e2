"""Settings of the memory service."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skein_kit.settings import Settings, default_data_dir

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecretSettings(Settings):
    """Keys that encrypt secrets: the field `x` is the variable SKEIN_X, or a file named by SKEIN_X_FILE."""

    # What the tenants' keys are sealed with: 32 bytes as hex or base64. Without it no secret is stored, and memory does
    # not start once there are secrets.
    master_key: str = dataclasses.field(default="", repr=False)
    # The master key before this one: still opens, so that the key can be changed without a pause.
    master_key_previous: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemorySettings(Settings):
    """Settings of the memory service: the field `x` is the variable SKEIN_MEMORY_X."""

    prefix: ClassVar[str] = "SKEIN_MEMORY_"

    # The longest content that is taken, in characters.
    max_content_characters: int = 100_000
    # Where memories in cold storage lie: a folder, shared by all processes of the service. Empty: "archives" below
    # SKEIN_DATA_DIR.
    archive_dir: str = ""
    # Whole months that the access log goes back; 0: for ever.
    access_log_months: int = 24
    # Seconds after which a watch that has nothing to tell says so.
    watch_heartbeat_seconds: float = 15.0
    # The longest pause, in seconds, between two polls of the event log of a tenant with subscribers.
    watch_pause_seconds: float = 1.0
    # Changes that wait at most for a watcher that does not read them; one more, and it is sent away.
    watch_buffer: int = 1000
    # Vectors of up to so many memories are made before the call returns; those of larger writes are made soon after.
    immediate_embeddings: int = 16

    def archives(self, environment: Mapping[str, str]) -> Path:
        if self.archive_dir:
            return Path(self.archive_dir)
        return Path(environment.get("SKEIN_DATA_DIR") or default_data_dir()) / "archives"
