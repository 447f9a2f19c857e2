"""Devices that wait for a person's answer, in the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from skein_auth.auth_sessions.model import AuthSession, GrantError, GrantResult, RefreshToken, revoke_for_reuse
from skein_auth.auth_sessions.store import apply_changes, create_sign_in, live_refresh_token, lock_session
from skein_auth.oauth.device_model import DeviceAuthorization, DeviceState, PollResult
from skein_auth.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import asyncpg

    from skein_kit.database.transactions import Database
    from skein_kit.identity.bearer_token import BearerToken


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingDevice:
    """A device, and what its client calls itself."""

    device: DeviceAuthorization
    client_name: str
    client_uri: str


class DeviceStore:
    """The devices that wait."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(self, device: DeviceAuthorization, user_code: str, at: datetime) -> bool:
        """Keep a new device; False when another one shows the same letters."""
        async with self._database.shared() as tx:
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

    async def shown(self, user_code: str) -> PendingDevice | None:
        """Return the device that shows these letters, whatever became of it."""
        async with self._database.shared() as tx:
            row = await tx.row(QUERIES["get_device_code"], user_code=user_code)
        if row is None:
            return None
        return PendingDevice(device=_device(row), client_name=row["client_name"], client_uri=row["client_uri"])

    async def approve(
        self,
        device: DeviceAuthorization,
        sign_in: AuthSession,
        at: datetime,
        *,
        address: str = "",
        user_agent: str = "",
    ) -> bool:
        """Record a yes and the grant that it makes; False when somebody answered before, or it is too late."""
        async with self._database.transaction(sign_in.tenant_id) as tx:
            answered = await tx.execute(
                QUERIES["answer_device_code"],
                device_code_id=device.device_code_id,
                state=DeviceState.APPROVED.value,
                approved_tenant_id=sign_in.tenant_id,
                approved_sign_in_id=sign_in.sign_in_id,
                at=at,
            )
            if not answered:
                return False
            await create_sign_in(tx, sign_in, address=address, user_agent=user_agent)
        return True

    async def deny(self, device: DeviceAuthorization, at: datetime) -> bool:
        """Record a no; False when somebody answered before, or it is too late."""
        async with self._database.shared() as tx:
            return bool(
                await tx.execute(
                    QUERIES["answer_device_code"],
                    device_code_id=device.device_code_id,
                    state=DeviceState.DENIED.value,
                    approved_tenant_id=None,
                    approved_sign_in_id=None,
                    at=at,
                )
            )

    async def poll(
        self,
        presented: BearerToken,
        ask: Callable[[DeviceAuthorization | None], PollResult | GrantError],
        let_in: Callable[[AuthSession, RefreshToken | None], GrantResult],
        at: datetime,
    ) -> tuple[GrantResult, AuthSession | None]:
        """Let a device ask; the first one to ask after a yes is let in. Return the sign-in that the answer made, too.

        A caller that asks after the grace has the code from somewhere: what it gave is revoked.
        """
        async with self._database.shared() as tx:
            row = await tx.row(QUERIES["lock_device_code"], device_code_id=presented.token_id)
            asked = ask(None if row is None else _device(row))
            if isinstance(asked, GrantError):
                return GrantResult(fault=asked), None
            device = asked.device
            await tx.execute(
                QUERIES["poll_device_code"],
                device_code_id=device.device_code_id,
                poll_time=device.poll_time,
                interval_seconds=int(device.interval.total_seconds()),
                state=device.state.value,
            )
        if asked.fault not in {None, GrantError.REUSED}:
            return GrantResult(fault=asked.fault), None
        if device.approved_tenant_id is None or device.approved_sign_in_id is None:
            message = "an approved device has a sign-in"
            raise LookupError(message)
        async with self._database.transaction(device.approved_tenant_id) as tx:
            sign_in = await lock_session(tx, device.approved_tenant_id, device.approved_sign_in_id)
            if sign_in is None:
                return GrantResult(fault=GrantError.INVALID), None
            if asked.fault:
                step = revoke_for_reuse(sign_in, at, "device_code_reused")
            else:
                step = let_in(sign_in, await live_refresh_token(tx, sign_in))
            await apply_changes(tx, sign_in, step.changes)
        return step, sign_in


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
        approved_sign_in_id=row["approved_sign_in_id"],
    )
