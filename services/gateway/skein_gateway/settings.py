"""Settings of the gateway service."""

from __future__ import annotations

import dataclasses

from skein_kit.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class GatewaySettings(Settings):
    """What the gateway is told, besides what every process is told."""

    # Port of the HTTP door; 0 takes a free one.
    http_port: int = 8080
    # Seconds that one arm of a recall gets at most; less when the caller's own time is shorter.
    gateway_recall_arm_seconds: float = 5.0
    # Continue the traces of callers, who then decide what is recorded; otherwise a trace begins here, linked to theirs.
    trust_traceparent: bool = False
