"""An authenticated identity, and the refusal of a credential."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Unpack
from uuid import UUID

from skein_auth.api_keys.model import StoredApiKey
from skein_auth.audit.model import AuditFields
from skein_kit.errors import RpcError
from skein_kit.identity.identity_token import Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthenticatedIdentity:
    """The caller of a credential, and its expiry."""

    caller: Caller
    # None: the credential never expires.
    expire_time: datetime | None = None


class AuthenticationFailed(Exception):
    """A refused credential: the error, and the verified fields of its audit event."""

    def __init__(self, error: RpcError, *, is_final: bool = False, **fields: Unpack[AuditFields]) -> None:
        """`is_final`: no later change makes the credential valid."""
        super().__init__(error.message)
        self.error = error
        self.is_final = is_final
        self.fields = fields


def key_caller(tenant_id: UUID, key_id: UUID, stored_key: StoredApiKey) -> Caller:
    """Return the caller of a key: the key itself, or its service account."""
    account_id = stored_key.service_account_id
    return Caller(
        principal=f"api_key:{key_id}" if account_id is None else f"service_account:{account_id}",
        tenant_id=tenant_id,
        permissions=stored_key.permissions,
        agent_id=stored_key.agent_id,
        auth_session_id=None if account_id is None else key_id,
        grant_ids=stored_key.grant_ids,
    )
