"""Settings of the session service."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skein_kit.settings import Settings, default_data_dir

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class SessionSettings(Settings):
    """Settings of the session service: the field `x` is the variable SKEIN_SESSION_X."""

    prefix: ClassVar[str] = "SKEIN_SESSION_"

    # The longest content of a message that is taken, in characters.
    max_content_characters: int = 100_000
    # Vectors of up to so many messages are made before the call returns; those of larger batches soon after it.
    immediate_embeddings: int = 16
    # Seconds after which a stream that has no message to send says so.
    stream_heartbeat_seconds: float = 15.0
    # The longest pause, in seconds, between two looks at the sessions of a tenant that somebody follows.
    stream_pause_seconds: float = 1.0
    # An OpenAI-compatible API that makes summaries, by its base such as http://127.0.0.1:11434/v1; it gets transcripts.
    summary_url: str = ""
    # The model that SKEIN_SESSION_SUMMARY_URL is asked for.
    summary_model: str = ""
    # The key of SKEIN_SESSION_SUMMARY_URL, if it needs one.
    summary_key: str = dataclasses.field(default="", repr=False)
    # Seconds that SKEIN_SESSION_SUMMARY_URL gets; then the summary is made of the conversation's own sentences.
    summary_timeout_seconds: float = 20.0
    # Where messages of archived sessions lie: a folder, shared by all processes of the service. Empty:
    # "session-archives" below SKEIN_DATA_DIR.
    archive_dir: str = ""

    def archives(self, environment: Mapping[str, str]) -> Path:
        """Return the folder of cold storage."""
        if self.archive_dir:
            return Path(self.archive_dir)
        return Path(environment.get("SKEIN_DATA_DIR") or default_data_dir()) / "session-archives"
