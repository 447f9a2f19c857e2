"""Settings of the session service."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from skein_kit.settings import Settings, advanced, default_data_dir


@dataclasses.dataclass(frozen=True, kw_only=True)
class SessionSettings(Settings):
    """Settings of the session service: the field `x` is the variable SKEIN_SESSION_X."""

    prefix: ClassVar[str] = "SKEIN_SESSION_"

    # Base URL of an OpenAI-compatible API that writes summaries, e.g. http://127.0.0.1:11434/v1. It receives
    # transcripts.
    summary_url: str = ""
    # Model that SKEIN_SESSION_SUMMARY_URL uses.
    summary_model: str = ""
    # API key of SKEIN_SESSION_SUMMARY_URL, if it needs one.
    summary_key: str = dataclasses.field(default="", repr=False)
    # Timeout of SKEIN_SESSION_SUMMARY_URL, in seconds, within the caller's deadline; after it the summary consists of
    # the conversation's own sentences. More, for a model on a slow machine.
    summary_timeout_seconds: float = advanced(20.0)
    # Folder of messages in cold storage, shared by all processes of the service. Empty: "session-archives" below
    # SKEIN_DATA_DIR.
    archive_dir: str = ""

    def archives(self, environment: Mapping[str, str]) -> Path:
        """Return the folder of cold storage."""
        if self.archive_dir:
            return Path(self.archive_dir)
        return Path(environment.get("SKEIN_DATA_DIR") or default_data_dir()) / "session-archives"
