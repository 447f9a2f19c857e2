"""Attack: an eavesdropper repeats a request, with its request_id, to be shown again what is shown once.
May be seen: the first answer without its secret; of RevealSecret, what its caller may read, with an event each time.
May be spent: one row per request_id; the stored answers hold no secret.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from fix_accounts import PASSWORD, Account, new_email
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant
from fix_models import until
from fix_recipes_webhooks import NOWHERE
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from skein.auth.v1 import accounts_pb2, auth_pb2, oauth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import (
    blocks_pb2,
    curation_pb2,
    history_pb2,
    memory_pb2,
    snapshots_pb2,
    webhooks_pb2,
)
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import members_pb2, tenancy_pb2

CONTRACT = (
    auth_pb2, oauth_pb2, memory_pb2, history_pb2, blocks_pb2, curation_pb2, snapshots_pb2, session_pb2, tenancy_pb2,
    recall_pb2, gateway_pb2,
)  # fmt: skip
# Reads a stored secret each time it is asked, and records it.
READS = {"RevealSecret"}
# Enabled by a code of an authenticator, which its own tests have.
BY_CODE = {"ConfirmTotp"}


@dataclass(frozen=True)
class SecretMakers:
    """Who makes secrets, and what they are about."""

    cluster: Cluster
    tenant: Tenant
    account: Account
    api_key_id: str
    webhook_id: str


def key(makers: SecretMakers, once: str) -> Awaitable[Message]:
    return makers.tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", request_id=once))


def rotated_key(makers: SecretMakers, once: str) -> Awaitable[Message]:
    request = accounts_pb2.RotateApiKeyRequest(api_key_id=makers.api_key_id, request_id=once)
    return makers.tenant.auth.RotateApiKey(request)


def one_time_token(makers: SecretMakers, once: str) -> Awaitable[Message]:
    return makers.cluster.operator.auth.CreateOneTimeToken(
        accounts_pb2.CreateOneTimeTokenRequest(
            account_id=makers.account.account_id, purpose=accounts_pb2.TOKEN_PURPOSE_PASSWORD_RESET, request_id=once
        )
    )


def totp(makers: SecretMakers, once: str) -> Awaitable[Message]:
    return makers.account.stubs.auth.StartTotp(accounts_pb2.StartTotpRequest(password=PASSWORD, request_id=once))


def invitation(makers: SecretMakers, once: str) -> Awaitable[Message]:
    request = members_pb2.CreateInvitationRequest(
        email=f"{once}@example.org", role=members_pb2.ROLE_VIEWER, request_id=once
    )
    return makers.tenant.tenancy.CreateInvitation(request)


def webhook(makers: SecretMakers, once: str) -> Awaitable[Message]:
    webhook = webhooks_pb2.Webhook(display_name="w", event_types=["*"], webhook_url=NOWHERE)
    return makers.tenant.history.CreateWebhook(webhooks_pb2.CreateWebhookRequest(webhook=webhook, request_id=once))


def webhook_secret(makers: SecretMakers, once: str) -> Awaitable[Message]:
    request = webhooks_pb2.RotateWebhookSecretRequest(webhook_id=makers.webhook_id, request_id=once)
    return makers.tenant.history.RotateWebhookSecret(request)


ONCE: dict[str, Callable[[SecretMakers, str], Awaitable[Message]]] = {
    "CreateApiKey": key,
    "RotateApiKey": rotated_key,
    "CreateOneTimeToken": one_time_token,
    "StartTotp": totp,
    "CreateInvitation": invitation,
    "CreateWebhook": webhook,
    "RotateWebhookSecret": webhook_secret,
}


def secrets_of(answer: Message) -> list[str]:
    """Return what an answer shows in the fields that the contract marks as secret."""
    return [
        str(value)
        for field, value in answer.ListFields()
        if field.GetOptions().debug_redact and field.type == FieldDescriptor.TYPE_STRING
    ]


async def test_every_answer_with_a_secret_and_a_request_id_is_attacked_here() -> None:
    methods = {
        method.name
        for file in CONTRACT
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if "request_id" in method.input_type.fields_by_name
        and any(field.GetOptions().debug_redact for field in method.output_type.fields)
    }

    assert methods == {*ONCE, *READS, *BY_CODE}


@pytest.mark.system
async def test_a_repeated_request_shows_nothing_again_and_no_stored_answer_holds_it(
    cluster: Cluster, tenant: Tenant, account: Account
) -> None:
    made = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="old"))
    webhook = webhooks_pb2.Webhook(display_name="w", event_types=["*"], webhook_url=NOWHERE)
    created = await tenant.history.CreateWebhook(webhooks_pb2.CreateWebhookRequest(webhook=webhook))
    makers = SecretMakers(cluster, tenant, account, made.api_key.api_key_id, created.webhook.webhook_id)
    shown: list[str] = []

    for name, make in ONCE.items():
        once = uuid.uuid4().hex
        answers = await asyncio.gather(*(make(makers, once) for _ in range(attack_size(4, 32))))
        results = [secrets_of(answer) for answer in answers]
        assert sum(bool(secrets) for secrets in results) == 1, name
        assert secrets_of(await make(makers, once)) == [], name
        shown += [secret for secrets in results for secret in secrets]

    async with cluster.superuser() as connection:
        stored: list[bytes] = []
        for table in ("auth.requests", "tenancy.requests", "memory.requests"):
            rows: list[Any] = await connection.fetch(f"SELECT response FROM {table}")  # noqa: S608 - of this file.
            stored += [row["response"] for row in rows]
    assert stored
    assert not [secret for secret in shown for response in stored if secret.encode() in response]


async def test_each_reveal_reads_the_secret_of_now_and_is_an_event(tenant: Tenant) -> None:
    vault = memory_pb2.Memory(type="knowledge_vault", content="the door", secret_value="1111")
    created = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=vault))).memory
    request = memory_pb2.RevealSecretRequest(memory_id=created.memory_id, request_id=new_email())

    before = (await tenant.memory.RevealSecret(request)).secret_value
    change = memory_pb2.UpdateMemoryRequest(memory=memory_pb2.Memory(memory_id=created.memory_id, secret_value="2222"))
    change.update_mask.paths.append("secret_value")
    await tenant.memory.UpdateMemory(change)
    after = (await tenant.memory.RevealSecret(request)).secret_value

    async def are_listed() -> bool:
        # The log ends before the oldest open transaction, of whichever tenant.
        changes = (await tenant.history.ListChanges(history_pb2.ListChangesRequest())).changes
        return [change.event_type for change in changes].count("secret_revealed") == 2

    assert (before, after) == ("1111", "2222")
    await until(are_listed)
