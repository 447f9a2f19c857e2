"""Reads receipts: only those that the caller may read, and that are what was signed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from joserfc.jwk import OKPKey

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import bound_agent_id, current_space_ids
from skein_kit.errors import PermissionMissing
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.recall_receipts import ReceiptInvalid, SignedReceipt
from skein_recall.errors import ReceiptAltered, ReceiptNotFound
from skein_recall.receipts import convert
from skein_recall.receipts.model import READ_ALL, ItemName, may_read
from skein_recall.receipts.store import ReceiptStore
from skein_recall.receipts.writer import ReceiptWriter


class ReceiptReader:
    """Receipts with their published keys."""

    def __init__(self, store: ReceiptStore, writer: ReceiptWriter, auth: auth_pb2_grpc.AuthServiceAsyncStub) -> None:
        """Read published keys from `auth`; receipts of this process that wait in `writer` are stored first."""
        self._store = store
        self._writer = writer
        self._auth = auth
        self._keys: dict[str, Ed25519PublicKey] = {}

    async def read(self, caller: Caller, receipt_id: UUID) -> tuple[SignedReceipt, pb.ReceiptContent]:
        """Return a receipt, with that of its context, and what it signs.

        Raises ReceiptNotFound, also for another caller's and for one with an item that the caller does not see, and
        ReceiptAltered.
        """
        tenant_id = caller.require_tenant()
        signed = await self._store.get(tenant_id, receipt_id)
        if signed is None or signed.context is None:
            if self._writer.is_pending(tenant_id, receipt_id):
                await self._writer.flush()
            # One that is not pending may have been stored since the first read.
            signed = await self._store.get(tenant_id, receipt_id)
        if signed is None:
            raise ReceiptNotFound
        if signed.key_id not in self._keys:
            self._keys = await self._read_keys()
        try:
            content = signed.verify(self._keys)
        except ReceiptInvalid as error:
            raise ReceiptAltered(receipt_id=str(receipt_id), part=error.part) from None
        if not may_read(caller, convert.principal(content)):
            raise ReceiptNotFound
        if not await self._visible(caller, tenant_id, [(signed, content)]):
            raise ReceiptNotFound
        reach = current_space_ids()
        if reach is not None and not set(convert.space_ids(content)) <= set(reach):
            # It counted items of spaces that the caller does not see any more.
            content.ClearField("pending_embedding_count")
        return signed, content

    async def list(
        self, caller: Caller, principal: str, from_id: UUID, before_id: UUID, *, count: int
    ) -> list[tuple[SignedReceipt, pb.ReceiptContent | None]]:
        """Return up to `count` receipts of a range of ids, newest first, each with what it signs; None if altered.

        An empty `principal` lists those of all that the caller may read. Raises PermissionMissing for another caller.
        """
        if READ_ALL not in caller.permissions:
            principal = principal or caller.principal
            if not may_read(caller, principal):
                raise PermissionMissing(permission=READ_ALL)
        tenant_id = caller.require_tenant()
        page: list[tuple[SignedReceipt, pb.ReceiptContent | None]] = []
        while len(page) < count:
            receipts = await self._store.list_receipts(tenant_id, principal, from_id, before_id, count=count)
            if any(
                signed.context is None and self._writer.is_pending(tenant_id, signed.receipt_id) for signed in receipts
            ):
                await self._writer.flush()
                receipts = await self._store.list_receipts(tenant_id, principal, from_id, before_id, count=count)
            if any(signed.key_id not in self._keys for signed in receipts):
                self._keys = await self._read_keys()
            contents = [self._content(signed, principal) for signed in receipts]
            pairs = list(zip(receipts, contents, strict=True))
            visible = await self._visible(
                caller, tenant_id, [(signed, content) for signed, content in pairs if content is not None]
            )
            page += [(signed, content) for signed, content in pairs if content is None or id(content) in visible]
            if len(receipts) < count:
                break
            before_id = receipts[-1].receipt_id
        return page[:count]

    async def _visible(
        self, caller: Caller, tenant_id: UUID, receipts: Sequence[tuple[SignedReceipt, pb.ReceiptContent]]
    ) -> set[int]:
        """Return `id()` of the contents whose items the caller sees in the spaces that the call reaches, as its agent.

        Of another caller's, all spaces of the search must be among them: a query tells of what it looked for.
        """
        reach, agent_id = current_space_ids(), bound_agent_id()
        if reach is None and not agent_id:
            return {id(content) for _, content in receipts}
        reach = (DEFAULT_SPACE,) if reach is None else reach
        items_of = {
            id(content): convert.named_items(signed, content)
            for signed, content in receipts
            if convert.principal(content) == caller.principal or set(convert.space_ids(content)) <= set(reach)
        }
        hidden = await self._store.list_hidden(
            tenant_id, set[ItemName]().union(*items_of.values()), reach, agent_id=agent_id
        )
        return {key for key, items in items_of.items() if hidden.isdisjoint(items)}

    def _content(self, signed: SignedReceipt, principal: str) -> pb.ReceiptContent | None:
        """Return what a receipt signs; None if it was altered, or was listed for another principal than it signs."""
        try:
            content = signed.verify(self._keys)
        except ReceiptInvalid:
            return None
        return content if not principal or convert.principal(content) == principal else None

    async def _read_keys(self) -> dict[str, Ed25519PublicKey]:
        request = auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE)
        keys: dict[str, Ed25519PublicKey] = {}
        for published in (await self._auth.ListSigningKeys(request)).signing_keys:
            public_key = OKPKey.import_key(json.loads(published.jwk)).public_key
            if isinstance(public_key, Ed25519PublicKey):
                keys[published.key_id] = public_key
        return keys
