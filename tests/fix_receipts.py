"""Answers with receipts, for tests of these."""

from __future__ import annotations

import asyncio
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from fix_cluster import Stubs, Tenant
from fix_models import until

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import access_log_pb2, memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit.erasure_certificates import key_set

TOPICS = ("kettle", "garden", "violin", "harbour", "invoice", "lantern", "bicycle", "orchard")


async def set_policy(tenant: Tenant, **values: Any) -> None:
    request = subjects_pb2.UpdatePolicyRequest(
        policy=subjects_pb2.Policy(**values), update_mask={"paths": list(values)}
    )
    await tenant.tenancy.UpdatePolicy(request)


async def remember(tenant: Tenant, content: str, **fields: Any) -> str:
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=content, **fields))
    return (await tenant.memory.CreateMemory(request)).memory.memory_id


async def recall(tenant: Stubs, query: str, **fields: Any) -> pb.RecallResponse:
    return await tenant.recall.Recall(pb.RecallRequest(query=query, **fields))


async def recall_with_receipt(tenant: Stubs, query: str, **fields: Any) -> pb.RecallResponse:
    """Recall until the policy, which holds within a second, gives the answer a receipt."""
    while True:
        response = await recall(tenant, query, **fields)
        if response.receipt_id:
            return response
        await asyncio.sleep(0.05)


async def recall_beside_a_purged_message(tenant: Tenant) -> pb.RecallResponse:
    """Return an answer with one hit, a message; the message before it, by which it was measured, is purged."""
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=content)
        for content in ("Where does the kettle of the mill stand?", "In the attic.", "Then bring it down.")
    ]
    request = session_pb2.AppendMessagesRequest(session_id="s", messages=messages, create_session=True)
    question_id = (await tenant.sessions.AppendMessages(request)).messages[0].message_id
    response = await recall_with_receipt(tenant, "the attic", min_relevance=0, limit=1)
    assert question_id not in [hit.item_id for hit in response.hits]
    await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[question_id]))
    return response


async def get_receipt(tenant: Stubs, receipt_id: str) -> pb.RecallReceipt:
    return (await tenant.recall.GetRecallReceipt(pb.GetRecallReceiptRequest(receipt_id=receipt_id))).receipt


async def get_context_receipt(tenant: Stubs, receipt_id: str) -> pb.RecallReceipt:
    """Return the receipt of a context once its text is stored, which takes up to a second."""

    async def is_stored() -> bool:
        return (await get_receipt(tenant, receipt_id)).HasField("context")

    await until(is_stored)
    return await get_receipt(tenant, receipt_id)


async def list_receipts(tenant: Stubs, **fields: Any) -> pb.ListRecallReceiptsResponse:
    return await tenant.recall.ListRecallReceipts(pb.ListRecallReceiptsRequest(**fields))


async def listed_ids(tenant: Stubs, **fields: Any) -> list[str]:
    return [receipt.receipt_id for receipt in (await list_receipts(tenant, **fields)).receipts]


async def logged_recalls(tenant: Tenant, count: int) -> None:
    request = access_log_pb2.ListAccessLogRequest(page_size=1000)
    while True:
        events = (await tenant.history.ListAccessLog(request)).access_events
        if len({event.create_time.ToNanoseconds() for event in events if event.method == "Recall"}) >= count:
            return
        await asyncio.sleep(0.05)


async def published_keys(tenant: Tenant) -> dict[str, Ed25519PublicKey]:
    request = auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE)
    published = (await tenant.auth.ListSigningKeys(request)).signing_keys
    return key_set.read(key_set.write(key.jwk for key in published))
