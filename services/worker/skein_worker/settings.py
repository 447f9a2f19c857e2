"""Settings of the worker."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from skein_kit.settings import ProcessSettings, SettingInvalid, Settings, advanced

_MIN_KEY_LENGTH = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerSettings(Settings):
    """Settings of the worker: the field `x` is the variable SKEIN_WORKER_X."""

    prefix: ClassVar[str] = "SKEIN_WORKER_"

    # Multiplies the pauses between the rounds of jobs. More, where many idle tenants load the database; less, where
    # background work should follow sooner.
    pause_factor: float = advanced(1.0)
    # Base URL of an OpenAI-compatible API that finds facts, e.g. http://127.0.0.1:11434/v1. It receives messages of
    # tenants whose policy has the extraction "model". Empty: rules read them.
    extraction_url: str = ""
    # Model that SKEIN_WORKER_EXTRACTION_URL uses.
    extraction_model: str = ""
    # API key of SKEIN_WORKER_EXTRACTION_URL, if it needs one.
    extraction_key: str = dataclasses.field(default="", repr=False)
    # Timeout of one message at SKEIN_WORKER_EXTRACTION_URL, in seconds. More, for a model on a processor.
    extraction_timeout_seconds: float = advanced(60.0)
    # Whether a tenant may name an endpoint of its own (extraction_url of its policy). It must be https and public, or
    # in SKEIN_OUTBOUND_ALLOW.
    extraction_allow_tenants: bool = False
    # Tokens of SKEIN_WORKER_EXTRACTION_URL for one tenant and day (UTC). Messages beyond them wait for the next day. A
    # tenant may set a lower limit for its job model_extraction.
    extraction_tokens_per_day: int = 1_000_000
    # Seconds without a heartbeat after which another worker takes a job. More, where machines pause for longer.
    heartbeat_timeout_seconds: float = advanced(10.0)

    def __post_init__(self) -> None:
        """Raise SettingInvalid for a value that would make a job spin or stall."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, (str, bool)) and value <= 0:
                message = f"{self.variable_of(field)} should be more than 0."
                raise SettingInvalid(message)


def check_system_key(process: ProcessSettings) -> None:
    """Raise SettingInvalid when the system key is too short for the worker to act with it."""
    if len(process.system_key) < _MIN_KEY_LENGTH:
        message = f"SKEIN_SYSTEM_KEY should hold at least {_MIN_KEY_LENGTH} characters: the worker acts with it."
        raise SettingInvalid(message)
