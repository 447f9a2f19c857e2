"""Settings of the memory service."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from skein_kit.settings import Settings, default_data_dir


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecretSettings(Settings):
    """Keys that encrypt secrets: the field `x` is the variable SKEIN_X, or a file named by SKEIN_X_FILE."""

    # Wraps the tenants' keys: 32 bytes as hex or base64. Without it no secret can be stored, and memory does not start
    # if there are secrets.
    master_key: str = dataclasses.field(default="", repr=False)
    # The master key before this one. It still unwraps keys, so that the master key can change without downtime.
    master_key_previous: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemorySettings(Settings):
    """Settings of the memory service: the field `x` is the variable SKEIN_MEMORY_X."""

    prefix: ClassVar[str] = "SKEIN_MEMORY_"

    # Folder of memories in cold storage, shared by all processes of the service. Empty: "archives" below
    # SKEIN_DATA_DIR.
    archive_dir: str = ""
    # Whole months to keep the access log; 0: without a limit.
    access_log_months: int = 24

    def archives(self, environment: Mapping[str, str]) -> Path:
        if self.archive_dir:
            return Path(self.archive_dir)
        return Path(environment.get("SKEIN_DATA_DIR") or default_data_dir()) / "archives"
