"""Calls on whose behalf page tokens are signed."""

from __future__ import annotations

import uuid

from skein_kit.calls.call import IN_PROCESS, Call
from skein_kit.identity.identity_token import Caller

TENANT = uuid.UUID("01a1fc01-2863-7de6-a629-acfec7e060bc")


def call(*, path: str = "/s/List", principal: str = "api_key:1", key: bytes = b"k" * 32) -> Call:
    """Return a call by a principal to a service that signs with a key."""
    made = Call(path=path, metadata={}, deadline=None, peer=IN_PROCESS)
    made.page_token_key = key
    made.caller = Caller(principal=principal, tenant_id=TENANT, permissions=frozenset())
    return made
