"""API keys: their values, the form of their tokens, and the checks of a presented one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from uuid import UUID

from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import CredentialExpired, CredentialInvalid, FieldInvalid, PermissionEscalation
from skein_kit.identity.bearer_token import API_KEY_PREFIX, BearerToken, is_jwt
from skein_kit.identity.identity_token import Caller

PREFIX = API_KEY_PREFIX
# How long a rotated key works on by default.
OVERLAP = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKey:
    """A key of a tenant, without its secret."""

    api_key_id: UUID
    display_name: str
    permissions: Sequence[str]
    agent_id: str | None
    create_time: datetime
    expire_time: datetime | None
    revoke_time: datetime | None
    created_by: str
    service_account_id: UUID | None
    use_time: datetime | None
    replaced_by: UUID | None
    grant_ids: Sequence[UUID]


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKeyDraft:
    """A key to be created."""

    display_name: str
    permissions: list[str]
    # False: the request named none, so the key gets all of its creator's.
    has_explicit_permissions: bool = True
    # The agent of its calls; empty for none.
    agent_id: str
    # None: never.
    expire_time: datetime | None
    # The principal of its creator.
    created_by: str
    # The key or auth session of its creator, which it must not outlive; None for neither.
    creator_id: UUID | None = None
    service_account_id: UUID | None = None
    # The applications' grants that create it.
    grant_ids: tuple[UUID, ...] = ()

    def resolve_expire_time(self, at: datetime, creator_expire_time: datetime | None) -> datetime | None:
        """Return when the key expires: no later than its creator. Raises FieldInvalid for a time in the past."""
        if self.expire_time is not None and self.expire_time <= at:
            raise FieldInvalid(violations=[("expire_time", "must lie in the future")])
        return min((time for time in (self.expire_time, creator_expire_time) if time is not None), default=None)

    def restrict_to(self, permissions: frozenset[str], agent_id: str) -> ApiKeyDraft:
        """Return the draft of a key of a service account with these permissions and this agent; empty: any agent.

        Raises PermissionEscalation for more than these.
        """
        excess_permissions = sorted(set(self.permissions) - permissions)
        if self.has_explicit_permissions and excess_permissions:
            raise PermissionEscalation(permission=" ".join(excess_permissions))
        if agent_id and self.agent_id not in ("", agent_id):
            raise PermissionEscalation(agent_id=agent_id)
        allowed_permissions = sorted(permissions.intersection(self.permissions))
        return replace(self, permissions=allowed_permissions, agent_id=self.agent_id or agent_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rotation:
    """A request to replace a key by a successor."""

    api_key_id: UUID
    # How long the old key works on.
    overlap: timedelta
    caller: Caller

    def successor(self, old: Mapping[str, Any]) -> ApiKeyDraft:
        """Return the successor of a stored key. It ends with the grants that created either of them."""
        return ApiKeyDraft(
            display_name=old["display_name"],
            permissions=list(old["permissions"]),
            agent_id=old["agent_id"] or "",
            expire_time=old["expire_time"],
            created_by=self.caller.principal,
            service_account_id=old["service_account_id"],
            grant_ids=tuple(sorted({*old["grant_ids"], *self.caller.grant_ids})),
        )

    def old_expire_time(self, at: datetime, expire_time: datetime | None) -> datetime:
        """Return when the old key, which has this expire time, expires now."""
        return min(at + self.overlap, expire_time or datetime.max.replace(tzinfo=UTC))


class ApiKeyToken(BearerToken):
    """The token of an API key. A key of the nil tenant belongs to the operator."""

    __slots__ = ()

    @classmethod
    def new(cls, tenant_id: UUID, key_id: UUID, check_key: bytes = b"") -> Self:
        """Make a token with a fresh secret, and with check digits unless `check_key` is empty."""
        key = cls.generate(PREFIX, tenant_id, key_id)
        return key.with_mac(check_key) if check_key else key

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a token; None for any other text."""
        return cls.decode(PREFIX, text)

    @property
    def key_id(self) -> UUID:
        """The id of the key's row."""
        return self.token_id

    @property
    def is_operator_key(self) -> bool:
        """Whether the key belongs to the operator rather than to a tenant."""
        return self.tenant_id == NO_TENANT


def is_skein_credential(credential: str) -> bool:
    """Return whether a credential has a form that this service makes."""
    return credential.startswith(PREFIX) or is_jwt(credential)


# Compared with the secret of an unknown key, so that it takes the same path as a wrong secret.
_NO_SECRET_HASH = bytes(32)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredApiKey:
    """What a presented key is checked against, within the limits of its service account."""

    secret_hash: bytes = field(repr=False)
    permissions: frozenset[str]
    agent_id: str = ""
    expire_time: datetime | None
    revoke_time: datetime | None
    service_account_id: UUID | None = None
    # Its service account is disabled, its agent is deleted, or a grant that created the key has ended.
    disabled: bool = False
    # The applications' grants that created the key or its service account.
    grant_ids: tuple[UUID, ...] = ()
    use_time: datetime | None = None

    def verify(self, token: ApiKeyToken, at: datetime) -> None:
        """Raises CredentialInvalid for a wrong secret, else what `check_active` raises.

        So only the holder of the right secret learns that a key has expired.
        """
        if not token.matches_hash(self.secret_hash):
            raise CredentialInvalid
        self.check_active(at)

    def check_active(self, at: datetime) -> None:
        """Raises CredentialInvalid for a revoked or disabled key, then CredentialExpired for an expired one."""
        if self.revoke_time is not None or self.disabled:
            raise CredentialInvalid
        if self.expire_time is not None and at >= self.expire_time:
            raise CredentialExpired


UNKNOWN_API_KEY = StoredApiKey(secret_hash=_NO_SECRET_HASH, permissions=frozenset(), expire_time=None, revoke_time=None)
