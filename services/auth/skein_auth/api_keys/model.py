"""API keys: what a new one shall be, and the form that its holder has. No SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import CredentialExpired, CredentialInvalid, FieldInvalid, PermissionEscalation
from skein_kit.identity.bearer_token import API_KEY_PREFIX, BearerToken, is_jwt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from skein_kit.identity.identity_token import Caller

PREFIX = API_KEY_PREFIX
# How long a rotated key goes on working unless somebody says otherwise.
OVERLAP = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceAccountLimits:
    """The service account that a key belongs to: the most that the key can do."""

    permissions: frozenset[str]
    # Empty: the key may act as any agent, or none.
    agent_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A tenant's key on its way in."""

    display_name: str
    permissions: list[str]
    # The permissions were asked for one by one; else they are all that its creator has.
    named: bool = True
    # The agent that its calls act as; empty for none.
    agent_id: str
    # None: never.
    expire_time: datetime | None
    # The principal that makes it.
    created_by: str
    # The key or the sign-in that the principal calls with, which this one must not outlive; None when it is neither.
    creator_id: UUID | None = None
    # None: it belongs to none.
    service_account_id: UUID | None = None
    # The applications' grants that make it.
    grant_ids: tuple[UUID, ...] = ()

    def ends(self, at: datetime, creator_ends: datetime | None) -> datetime | None:
        """Return when the key expires, which is no later than its creator does. Raises FieldInvalid for the past."""
        if self.expire_time is not None and self.expire_time <= at:
            raise FieldInvalid(violations=[("expire_time", "must lie in the future")])
        return min((end for end in (self.expire_time, creator_ends) if end is not None), default=None)

    def bound(self, bounds: ServiceAccountLimits) -> Draft:
        """Return it as a key of a service account. Raises PermissionEscalation for what that cannot do."""
        beyond = sorted(set(self.permissions) - bounds.permissions)
        if self.named and beyond:
            raise PermissionEscalation(permission=" ".join(beyond))
        if bounds.agent_id and self.agent_id not in ("", bounds.agent_id):
            raise PermissionEscalation(agent_id=bounds.agent_id)
        return replace(
            self,
            permissions=sorted(bounds.permissions.intersection(self.permissions)),
            agent_id=self.agent_id or bounds.agent_id,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Rotation:
    """The wish for a successor of a key."""

    api_key_id: UUID
    # How long the old key goes on working.
    overlap: timedelta
    by: Caller

    def successor(self, old: Mapping[str, Any]) -> Draft:
        """Return the key that takes the place of a stored one, and ends with the grants that made either."""
        return Draft(
            display_name=old["display_name"],
            permissions=list(old["permissions"]),
            agent_id=old["agent_id"] or "",
            expire_time=old["expire_time"],
            created_by=self.by.principal,
            service_account_id=old["service_account_id"],
            grant_ids=tuple(sorted({*old["grant_ids"], *self.by.grant_ids})),
        )

    def old_ends(self, at: datetime, ends: datetime | None) -> datetime:
        """Return when the old key ends."""
        return min(at + self.overlap, ends or datetime.max.replace(tzinfo=UTC))


class ApiKeyToken(BearerToken):
    """One API key as its holder has it; of the nil tenant it is a key of the operator."""

    __slots__ = ()

    @classmethod
    def new(cls, tenant_id: UUID, key_id: UUID, check_key: bytes = b"") -> Self:
        """Make a key with a fresh secret, and with check digits unless there is no key for them."""
        key = cls.made(PREFIX, tenant_id, key_id)
        return key.with_check_digits(check_key) if check_key else key

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a key; None for a text that is not exactly one."""
        return cls.read(PREFIX, text)

    @property
    def key_id(self) -> UUID:
        """Return the id of the key's row."""
        return self.token_id

    @property
    def is_operators(self) -> bool:
        """Say whether the key belongs to the operator rather than to a tenant."""
        return self.tenant_id == NO_TENANT


def is_skein_credential(credential: str) -> bool:
    """Say whether a credential could be taken for one that this service makes."""
    return credential.startswith(PREFIX) or is_jwt(credential)


# What a key that is not there is compared with, so that a wrong secret takes the same path.
_NO_SECRET_HASH = bytes(32)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredApiKey:
    """What the database keeps about one API key, bounded by the service account that it belongs to."""

    secret_hash: bytes = field(repr=False)
    permissions: frozenset[str]
    agent_id: str = ""
    expire_time: datetime | None
    revoke_time: datetime | None
    service_account_id: UUID | None = None
    # Its service account is disabled, its agent is deleted, or a grant that made the key has ended.
    disabled: bool = False
    # The applications' grants that made the key or its service account.
    grant_ids: tuple[UUID, ...] = ()
    use_time: datetime | None = None

    def judge(self, key: ApiKeyToken, at: datetime) -> None:
        """Refuse a key that does not prove itself, or is over.

        Only who holds the right secret learns more than that the credential is not valid.
        """
        if not key.proves(self.secret_hash):
            raise CredentialInvalid
        self.check(at)

    def check(self, at: datetime) -> None:
        """Refuse a key that was revoked, is disabled or has expired, in this order."""
        if self.revoke_time is not None or self.disabled:
            raise CredentialInvalid
        if self.expire_time is not None and at >= self.expire_time:
            raise CredentialExpired


UNKNOWN_API_KEY = StoredApiKey(secret_hash=_NO_SECRET_HASH, permissions=frozenset(), expire_time=None, revoke_time=None)
