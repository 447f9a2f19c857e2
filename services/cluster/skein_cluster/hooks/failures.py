"""The failure of a call of a hook, and the services that hooks call."""

from __future__ import annotations

GATEWAY = "skein.gateway.v1.GatewayService"
BLOCKS = "skein.memory.v1.BlockService"
AUTH = "skein.auth.v1.AuthService"


class CallFailed(Exception):
    """The cluster refused a call, or did not answer; the message is for the person."""

    def __init__(self, message: str, *, reason: str = "", code: str = "") -> None:
        """Keep the reason and the code of a refusal; empty for a cluster that does not answer."""
        super().__init__(message)
        self.reason = reason
        self.code = code
