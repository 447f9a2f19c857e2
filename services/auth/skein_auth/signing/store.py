"""The signing keys in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2 as pb
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.audit.store import AuditStore
from skein_auth.queries import QUERIES
from skein_auth.signing import convert
from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.store import IdempotencyStore

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

    from skein_auth.signing.model import NewKey, Purpose
    from skein_kit.database.transactions import Database
    from skein_kit.idempotency.key import IdempotencyKey


class SigningKeyStore:
    """The keys that sign, shared by all replicas."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._requests = IdempotencyStore(database, "auth")
        self._audit = AuditRecorder(AuditStore(database))

    async def active_signing_key(self, purpose: Purpose = "identity") -> asyncpg.Record | None:
        """Read the id and the sealed private half of the key that signs; None before the first one."""
        async with self._database.shared() as tx:
            return await tx.row(QUERIES["active_signing_key"], purpose=purpose)

    async def create_signing_key(self, new: NewKey) -> None:
        """Make it the key that signs, unless there is one."""
        async with self._database.shared() as tx:
            await tx.execute(
                QUERIES["create_signing_key"],
                key_id=new.key_id,
                purpose=new.purpose,
                public_jwk=new.public_jwk,
                sealed_private_jwk=new.sealed_private_jwk,
                create_time=new.create_time,
            )

    async def rotate_signing_key(
        self, new: NewKey, old_expires: datetime, once: IdempotencyKey, *, emergency: bool = False
    ) -> pb.RotateSigningKeyResponse:
        """Make it the key that signs, whatever signed before; or return the first answer, which names another key.

        In an emergency those that were replaced before and still verify end as well.
        """
        async with self._database.transaction(NO_TENANT) as tx:
            if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                return pb.RotateSigningKeyResponse.FromString(first)
            await tx.execute(QUERIES["lock_signing_keys"])
            retire = QUERIES["end_signing_keys" if emergency else "retire_signing_key"]
            await tx.execute(retire, purpose=new.purpose, expire_time=old_expires)
            await tx.execute(
                QUERIES["create_signing_key"],
                key_id=new.key_id,
                purpose=new.purpose,
                public_jwk=new.public_jwk,
                sealed_private_jwk=new.sealed_private_jwk,
                create_time=new.create_time,
            )
            response = pb.RotateSigningKeyResponse(signing_key=convert.new_signing_key(new))
            await self._audit.within(tx, "signing_key_rotated", target=f"signing_key:{new.key_id}")
            await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
        return response

    async def list_signing_keys(self, at: datetime, purpose: Purpose = "identity") -> list[pb.SigningKey]:
        """Read the public halves that verify at this time, the key that signs first."""
        async with self._database.shared() as tx:
            rows = await tx.rows(QUERIES["list_signing_keys"], at=at, purpose=purpose)
        return [convert.signing_key(row) for row in rows]
