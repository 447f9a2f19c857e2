"""Device authorizations in the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from skein_auth.auth_sessions.model import AuthSession, GrantError, GrantResult, StepContext, revoke_for_reuse
from skein_auth.auth_sessions.store import apply_changes, create_auth_session, get_live_refresh_token, lock_session
from skein_auth.oauth import device_model
from skein_auth.oauth.device_model import DeviceAuthorization, DeviceState, DeviceTokenRequest
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import Database, Transaction
from skein_kit.identity.bearer_token import BearerToken


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingDevice:
    """A device authorization, with the name and page of its client."""

    device: DeviceAuthorization
    client_name: str
    client_uri: str


class DeviceStore:
    """Device authorizations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(self, device: DeviceAuthorization, user_code: str, at: datetime) -> bool:
        """Create a device authorization; False when another one has the same user code."""
        async with self._database.global_transaction() as tx:
            return bool(
                await tx.execute(
                    QUERIES["create_device_code"],
                    device_code_id=device.device_code_id,
                    secret_hash=device.secret_hash,
                    user_code=user_code,
                    client_id=device.client_id,
                    scopes=sorted(device.scopes),
                    resources=list(device.resources),
                    interval_seconds=int(device.interval.total_seconds()),
                    create_time=at,
                    expire_time=device.expire_time,
                )
            )

    async def find_by_user_code(self, user_code: str) -> PendingDevice | None:
        """Return the device with this user code, in any state; None for no such device."""
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["get_device_code"], user_code=user_code)
        if row is None:
            return None
        return PendingDevice(device=_device(row), client_name=row["client_name"], client_uri=row["client_uri"])

    async def approve(
        self,
        device: DeviceAuthorization,
        session: AuthSession,
        at: datetime,
        *,
        address: str = "",
        user_agent: str = "",
    ) -> bool:
        """Record an approval and create its session; False when the device is answered or expired."""
        async with self._database.transaction(session.tenant_id) as tx:
            if not await _record_answer(tx, device, DeviceState.APPROVED, at, session):
                return False
            await create_auth_session(tx, session, address=address, user_agent=user_agent)
        return True

    async def deny(self, device: DeviceAuthorization, at: datetime) -> bool:
        """Record a denial; False when the device is answered or expired."""
        async with self._database.global_transaction() as tx:
            return await _record_answer(tx, device, DeviceState.DENIED, at, session=None)

    async def poll(
        self, presented_token: BearerToken, request: DeviceTokenRequest, context: StepContext
    ) -> tuple[GrantResult, AuthSession | None]:
        """Poll for a person's answer; the first poll after an approval gets the tokens. Return the session as well.

        A caller that polls after the grace stole the code: the session is revoked.
        """
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["lock_device_code"], device_code_id=presented_token.token_id)
            poll = device_model.poll(None if row is None else _device(row), presented_token, request, context)
            if isinstance(poll, GrantError):
                return GrantResult(error=poll), None
            device = poll.device
            await tx.execute(
                QUERIES["poll_device_code"],
                device_code_id=device.device_code_id,
                poll_time=device.poll_time,
                interval_seconds=int(device.interval.total_seconds()),
                state=device.state.value,
            )
        if poll.error not in {None, GrantError.REUSED}:
            return GrantResult(error=poll.error), None
        if device.approved_tenant_id is None or device.approved_auth_session_id is None:
            message = "an approved device has an auth session"
            raise LookupError(message)
        async with self._database.transaction(device.approved_tenant_id) as tx:
            session = await lock_session(tx, device.approved_tenant_id, device.approved_auth_session_id)
            if session is None:
                return GrantResult(error=GrantError.INVALID), None
            if poll.error:
                result = revoke_for_reuse(session, context.at, "device_code_reused")
            else:
                live_token = await get_live_refresh_token(tx, session)
                result = device_model.issue_device_tokens(session, live_token, presented_token, request, context)
            await apply_changes(tx, session, result.changes)
        return result, session


async def _record_answer(
    tx: Transaction, device: DeviceAuthorization, state: DeviceState, at: datetime, session: AuthSession | None
) -> bool:
    """Record an answer; False when the device is answered or expired."""
    answer_count = await tx.execute(
        QUERIES["answer_device_code"],
        device_code_id=device.device_code_id,
        state=state.value,
        approved_tenant_id=None if session is None else session.tenant_id,
        approved_auth_session_id=None if session is None else session.auth_session_id,
        at=at,
    )
    return bool(answer_count)


def _device(row: asyncpg.Record) -> DeviceAuthorization:
    return DeviceAuthorization(
        device_code_id=row["device_code_id"],
        secret_hash=row["secret_hash"],
        client_id=row["client_id"],
        scopes=frozenset(row["scopes"]),
        resources=tuple(row["resources"]),
        state=DeviceState(row["state"]),
        interval=timedelta(seconds=row["interval_seconds"]),
        poll_time=row["poll_time"],
        expire_time=row["expire_time"],
        approved_tenant_id=row["approved_tenant_id"],
        approved_auth_session_id=row["approved_auth_session_id"],
    )
