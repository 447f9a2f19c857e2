"""What happened to credentials: who, what, from where, how it ended. Never a secret, never content."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

import asyncpg
from prometheus_client import Counter

from skein_auth.audit.model import AuditEvent
from skein_kit.calls.call import current_call
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import RpcError
from skein_kit.ids import new_id, now
from skein_kit.network.source_network import source_network
from skein_kit.telemetry import logs
from skein_kit.telemetry.log_throttle import LogThrottle

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from skein_auth.audit.model import AuditFields
    from skein_auth.audit.store import AuditStore
    from skein_kit.calls.call import Call
    from skein_kit.database.transactions import Transaction

# Every event that there is; the README says what each means, and a test compares the two.
EVENTS = frozenset(
    {
        "account_created",
        "account_deactivated",
        "account_deleted",
        "account_updated",
        "api_key_adopted",
        "api_key_created",
        "api_key_revoked",
        "api_key_rotated",
        "authorization_approved",
        "authorization_denied",
        "client_deleted",
        "client_refused",
        "client_registered",
        "client_updated",
        "code_replayed",
        "code_used",
        "credential_refused",
        "credentials_revoked",
        "device_approved",
        "device_denied",
        "email_verification_requested",
        "email_verified",
        "identity_linked",
        "identity_unlinked",
        "legacy_token_set",
        "one_time_token_created",
        "password_changed",
        "password_reset",
        "password_reset_requested",
        "refresh_reused",
        "service_account_adopted",
        "service_account_created",
        "service_account_deleted",
        "service_account_updated",
        "sign_in",
        "sign_in_revoked",
        "sign_out",
        "sign_up",
        "signing_key_rotated",
        "token_issued",
        "token_refused",
        "token_revoked",
        "totp_confirmed",
        "totp_disabled",
        "totp_started",
    }
)
# In this time one event is recorded for each source of unknown credentials, one for each credential that was good once,
# and at most so many in all: a caller without a credential cannot fill the table.
DEDUPLICATION_SECONDS = 60.0
MAX_REFUSED = 1_000
_MAX_TEXT = 255
_MAX_CLIENT_ID = 2048

REFUSED = Counter("skein_auth_refused_credentials_total", "Credentials that were refused, recorded or not.", ["reason"])

log = logs.get("auth")


class AuditRecorder:
    """Records events, with what the call at hand says about who does it and from where."""

    def __init__(self, store: AuditStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        # Digests of credentials, and sources of unknown ones.
        self._refused: LogThrottle[bytes | str] = LogThrottle(DEDUPLICATION_SECONDS, most=MAX_REFUSED, clock=clock)

    async def record(self, event: str, **facts: Unpack[AuditFields]) -> None:
        """Keep an event in a transaction of its own, under NO_TENANT unless it concerns a tenant.

        A refusal that cannot be recorded stays the same refusal, and a line in the log; a success fails.
        """
        entry = _entry(event, facts)
        try:
            await self._store.record(entry)
        except (RpcError, asyncpg.PostgresError) as error:
            if entry.outcome == "success":
                raise
            log.warning("audit_event_lost", lost=event, reason=entry.reason, error=type(error).__name__)

    async def within(self, tx: Transaction, event: str, **facts: Unpack[AuditFields]) -> None:
        """Keep an event together with what it tells of, in a transaction that sees `tenant_id`, or NO_TENANT's rows."""
        await self._store.add(tx, _entry(event, facts))

    async def refused(self, credential: str, refusal: RpcError, **facts: Unpack[AuditFields]) -> None:
        """Record that a bearer credential was refused: each credential of which something is known once a minute.

        Unknown credentials are one event a minute for each source, however many they are. `tenant_id` is the tenant
        that surely has it; what a credential merely claims is not to be believed.
        """
        REFUSED.labels(refusal.reason).inc()
        call = current_call()
        source = source_network("" if call is None else call.client_address)
        if self._refused.is_first(hashlib.sha256(credential.encode()).digest() if facts else source):
            facts["outcome"], facts["reason"] = "refused", refusal.reason
            await self.record("credential_refused", **facts)


def _entry(event: str, facts: AuditFields) -> AuditEvent:
    if event not in EVENTS:
        message = f"{event} is no audit event; add it to EVENTS and to the README"
        raise LookupError(message)
    call, at = current_call(), now()
    caller = None if call is None else call.caller
    return AuditEvent(
        tenant_id=facts.get("tenant_id") or NO_TENANT,
        audit_event_id=new_id(at),
        event=event,
        outcome=facts.get("outcome", "success"),
        reason=facts.get("reason", ""),
        principal=facts.get("principal") or ("" if caller is None else caller.principal),
        account_id=facts.get("account_id") or (None if caller is None else caller.account_id),
        target=_storable(facts.get("target", "")),
        client_id=_storable(facts.get("client_id") or ("" if caller is None else caller.client_id), _MAX_CLIENT_ID),
        create_time=at,
        **_whence(call),
    )


def _whence(call: Call | None) -> dict[str, str]:
    """Return where a call came from, as the gateway saw it."""
    if call is None:
        return {"address": "", "user_agent": "", "request_id": ""}
    return {
        "address": _storable(call.client_address),
        "user_agent": _storable(call.user_agent),
        "request_id": call.request_id,
    }


def _storable(text: str, most: int = _MAX_TEXT) -> str:
    return "".join(character for character in text if character.isprintable())[:most]
