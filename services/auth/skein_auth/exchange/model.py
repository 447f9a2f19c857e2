"""An authenticated identity, and why a credential is refused. No SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.identity.identity_token import Caller

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Unpack
    from uuid import UUID

    from skein_auth.api_keys.model import StoredApiKey
    from skein_auth.audit.model import AuditFields
    from skein_kit.errors import RpcError


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthenticatedIdentity:
    """Who a credential stands for, and until when."""

    caller: Caller
    # None: the credential never expires.
    expire_time: datetime | None = None


class AuthenticationFailed(Exception):
    """A credential is not good: the refusal, and what is surely known of the credential, for the audit."""

    def __init__(self, refusal: RpcError, *, is_final: bool = False, **facts: Unpack[AuditFields]) -> None:
        """`is_final`: nothing that happens later makes the same credential good."""
        super().__init__(refusal.message)
        self.refusal = refusal
        self.is_final = is_final
        self.facts = facts


def key_caller(tenant_id: UUID, key_id: UUID, stored: StoredApiKey) -> Caller:
    """Return who calls with a key: the key itself, or the service account that it belongs to."""
    account_id = stored.service_account_id
    return Caller(
        principal=f"api_key:{key_id}" if account_id is None else f"service_account:{account_id}",
        tenant_id=tenant_id,
        permissions=stored.permissions,
        agent_id=stored.agent_id,
        sign_in_id=None if account_id is None else key_id,
        grant_ids=stored.grant_ids,
    )
