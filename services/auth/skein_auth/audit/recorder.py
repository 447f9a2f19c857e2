"""Records security-relevant acts: who, what, from where, with which outcome. Never a secret, never content."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Unpack

import asyncpg
from prometheus_client import Counter

from skein_auth.audit.model import AuditEvent, AuditFields
from skein_auth.audit.store import AuditStore
from skein_kit.calls.call import client_address, current_call, user_agent
from skein_kit.database.transactions import NO_TENANT, Transaction
from skein_kit.errors import RpcError
from skein_kit.ids import new_id, now
from skein_kit.network.source_network import source_network
from skein_kit.telemetry import logs
from skein_kit.telemetry.logs import LogThrottle

# Every event; docs/reference/audit-events.md is made from the comments.
EVENTS = frozenset(
    {
        # The operator created an account.
        "account_created",
        # An account was deactivated.
        "account_deactivated",
        # An account was deleted.
        "account_deleted",
        # An account was changed.
        "account_updated",
        # An agent was created.
        "agent_created",
        # An agent was deleted.
        "agent_deleted",
        # An agent was purged.
        "agent_purged",
        # An agent was undeleted.
        "agent_undeleted",
        # An agent was changed.
        "agent_updated",
        # A person let an API key outlive the grant that created it.
        "api_key_adopted",
        # An API key was created.
        "api_key_created",
        # An API key was revoked.
        "api_key_revoked",
        # An API key was replaced by a successor.
        "api_key_rotated",
        # A person allowed an application.
        "authorization_approved",
        # A person denied an application.
        "authorization_denied",
        # An OAuth client was deleted.
        "client_deleted",
        # The credentials of an OAuth client were wrong.
        "client_refused",
        # An OAuth client was registered or imported.
        "client_registered",
        # An OAuth client was changed.
        "client_updated",
        # An authorization code was presented again, and its session was revoked.
        "code_replayed",
        # An authorization code was exchanged for tokens.
        "code_used",
        # A credential was unknown, wrong, revoked or expired.
        "credential_refused",
        # The operator revoked credentials.
        "credentials_revoked",
        # A person allowed a device.
        "device_approved",
        # A person denied a device.
        "device_denied",
        # A link that verifies an address was requested.
        "email_verification_requested",
        # A link verified the address of an account.
        "email_verified",
        # The operator activated an embedding model.
        "embedding_model_activated",
        # The operator deleted an embedding model.
        "embedding_model_deleted",
        # The operator registered an embedding model.
        "embedding_model_registered",
        # An identity of a provider was linked to the account.
        "identity_linked",
        # An identity of a provider was unlinked from the account.
        "identity_unlinked",
        # A person accepted an invitation and is a member.
        "invitation_accepted",
        # A person was invited to a tenant.
        "invitation_created",
        # An invitation was revoked.
        "invitation_revoked",
        # A kind of background work got other limits; tenancy records it.
        "job_limited",
        # A kind of background work was paused; tenancy records it.
        "job_paused",
        # A kind of background work was resumed; tenancy records it.
        "job_resumed",
        # The operator set the legacy token.
        "legacy_token_set",
        # The operator added a member.
        "member_added",
        # A member left the tenant.
        "member_left",
        # A member was removed.
        "member_removed",
        # A member got another role.
        "member_updated",
        # The operator created a one-time token.
        "one_time_token_created",
        # The operator created an organization.
        "organization_created",
        # The operator deleted an organization.
        "organization_deleted",
        # The operator changed an organization.
        "organization_updated",
        # A tenant got another owner.
        "ownership_transferred",
        # A person changed the password.
        "password_changed",
        # A password was reset by a link.
        "password_reset",
        # A link that resets a password was requested.
        "password_reset_requested",
        # The tenant's policy was changed.
        "policy_updated",
        # A quota was changed.
        "quota_updated",
        # A replaced refresh token was presented again, and its session was revoked.
        "refresh_reused",
        # The operator cancelled a reindex.
        "reindex_cancelled",
        # The operator started a reindex.
        "reindex_started",
        # A person let a service account outlive the grant that created it.
        "service_account_adopted",
        # A service account was created.
        "service_account_created",
        # A service account was deleted.
        "service_account_deleted",
        # A service account was changed.
        "service_account_updated",
        # A person logged in, or was refused.
        "sign_in",
        # A person's session, or an application's grant, was revoked.
        "sign_in_revoked",
        # A person logged out.
        "sign_out",
        # A person created an account.
        "sign_up",
        # The operator rotated a signing key.
        "signing_key_rotated",
        # A space was created.
        "space_created",
        # A space was deleted.
        "space_deleted",
        # A principal no longer sees a space.
        "space_grant_revoked",
        # A principal sees a space.
        "space_granted",
        # A space was changed.
        "space_updated",
        # A subject was created. The purge of a subject removes its id from these events.
        "subject_created",
        # A subject was deleted.
        "subject_deleted",
        # A subject was purged; the event does not name it.
        "subject_purged",
        # A subject was undeleted.
        "subject_undeleted",
        # A subject's profile was changed.
        "subject_updated",
        # A tenant was created.
        "tenant_created",
        # A tenant was deleted.
        "tenant_deleted",
        # The operator undeleted a tenant.
        "tenant_undeleted",
        # A tenant was changed.
        "tenant_updated",
        # An application got tokens.
        "token_issued",
        # An application was refused tokens.
        "token_refused",
        # An application revoked a token.
        "token_revoked",
        # A tool was attached to an agent.
        "tool_attached",
        # A tool was created.
        "tool_created",
        # A tool was deleted.
        "tool_deleted",
        # A tool was detached from an agent.
        "tool_detached",
        # A tool was purged.
        "tool_purged",
        # A tool was undeleted.
        "tool_undeleted",
        # A tool was changed.
        "tool_updated",
        # The second factor was confirmed and is required from now on.
        "totp_confirmed",
        # The second factor was removed.
        "totp_disabled",
        # A person started a second factor.
        "totp_started",
    }
)
# Within this time, each source of unknown credentials and each known credential gets one event, and all together get
# MAX_REFUSED at most. So a caller without a credential cannot fill the table.
DEDUPLICATION_SECONDS = 60.0
MAX_REFUSED = 1_000
_MAX_TEXT = 255
_MAX_CLIENT_ID = 2048

REFUSED_CREDENTIALS = Counter(
    "skein_auth_refused_credentials_total", "Refused credentials, also those without an audit event.", ["reason"]
)

log = logs.get("auth")


class AuditRecorder:
    """Records audit events with the caller and the origin of the current call."""

    def __init__(self, store: AuditStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        # Digests of credentials, and sources of unknown ones.
        self._throttle: LogThrottle[bytes | str] = LogThrottle(
            DEDUPLICATION_SECONDS, max_kinds=MAX_REFUSED, clock=clock
        )

    async def record(self, event: str, **fields: Unpack[AuditFields]) -> None:
        """Record an event in a transaction of its own, under NO_TENANT unless it concerns a tenant.

        When the database fails, a refusal becomes a log line; for a success the error is raised.
        """
        audit_event = _event(event, fields)
        try:
            await self._store.record(audit_event)
        except (RpcError, asyncpg.PostgresError) as error:
            if audit_event.outcome == "success":
                raise
            log.warning("audit_event_lost", lost=event, reason=audit_event.reason, error=type(error).__name__)

    async def record_in(self, tx: Transaction, event: str, **fields: Unpack[AuditFields]) -> None:
        """Record an event in the transaction of its change, which sees `tenant_id`, or NO_TENANT's rows."""
        await self._store.add(tx, _event(event, fields))

    async def record_rejected_credential(self, credential: str, error: RpcError, **fields: Unpack[AuditFields]) -> None:
        """Record the refusal of a bearer credential: a known one, which has fields, once a minute.

        Unknown credentials are one event a minute for each source. `tenant_id` is the tenant that owns the credential;
        one that it merely claims must not be passed.
        """
        REFUSED_CREDENTIALS.labels(error.reason).inc()
        source = source_network(client_address())
        if self._throttle.is_first(hashlib.sha256(credential.encode()).digest() if fields else source):
            fields["outcome"], fields["reason"] = "refused", error.reason
            await self.record("credential_refused", **fields)


def _event(event: str, fields: AuditFields) -> AuditEvent:
    if event not in EVENTS:
        message = f"{event} is no audit event; add it to EVENTS"
        raise LookupError(message)
    call, at = current_call(), now()
    caller = None if call is None else call.caller
    return AuditEvent(
        tenant_id=fields.get("tenant_id") or NO_TENANT,
        audit_event_id=new_id(at),
        event=event,
        outcome=fields.get("outcome", "success"),
        reason=fields.get("reason", ""),
        principal=fields.get("principal") or ("" if caller is None else caller.principal),
        account_id=fields.get("account_id") or (None if caller is None else caller.account_id),
        target=_to_column(fields.get("target", "")),
        client_id=_to_column(fields.get("client_id") or ("" if caller is None else caller.client_id), _MAX_CLIENT_ID),
        address=_to_column(client_address()),
        user_agent=_to_column(user_agent()),
        request_id="" if call is None else call.request_id,
        create_time=at,
    )


def _to_column(text: str, max_characters: int = _MAX_TEXT) -> str:
    return "".join(character for character in text if character.isprintable())[:max_characters]
