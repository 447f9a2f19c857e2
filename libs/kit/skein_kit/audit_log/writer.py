"""Writes the audit events of calls: who changed what, from where. Never content, never a secret.

Auth itself records the events of credentials (skein_auth.audit); all events are in its table.
"""

from __future__ import annotations

import secrets
from typing import Any
from uuid import UUID

from google.protobuf.message import Message

from skein_kit.audit_log import chain
from skein_kit.calls.call import client_address, current_call, user_agent
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Transaction
from skein_kit.ids import new_id, now
from skein_kit.rpc.declarations import audit_rule

_QUERY = Queries.load("skein_kit")["create_audit_event"]
# The longest texts of an event.
_MAX_TEXT = 255
# An id has up to 255 characters.
_MAX_TARGET = 300
_MAX_CLIENT_ID = 2048


class AuditLog:
    """The audit log, as other services than auth write it."""

    async def record_declared(
        self, tx: Transaction, tenant_id: UUID, request: Message | None, response: object
    ) -> None:
        """Record the event that the current call's method declares, if the log records it for the method."""
        call = current_call()
        rule = None if call is None else audit_rule(call.path)
        if rule is not None and not rule.is_by_method:
            await self.record(tx, tenant_id, rule.event, target=_target(rule.target, request, response))

    async def record(self, tx: Transaction, tenant_id: UUID, event: str, *, target: str) -> None:
        """Record an event of the current call in the transaction of its change."""
        call, at = current_call(), now()
        caller = None if call is None else call.caller
        # A name that the purge of a person removes.
        subject = target if target.startswith(chain.SUBJECT) else None
        salt = None if subject is None else secrets.token_bytes(chain.SALT_BYTES)
        await tx.execute(
            _QUERY,
            tenant_id=tenant_id,
            audit_event_id=new_id(at),
            event=event,
            principal="" if caller is None else caller.principal,
            account_id=None if caller is None else caller.account_id,
            target=target if subject is None else "",
            client_id=_printable("" if caller is None else caller.client_id, _MAX_CLIENT_ID),
            address=_printable(client_address(), _MAX_TEXT),
            user_agent=_printable(user_agent(), _MAX_TEXT),
            request_id="" if call is None else call.request_id,
            create_time=at,
            subject_target=subject,
            subject_salt=salt,
            subject_digest=None if subject is None or salt is None else chain.subject_digest(salt, subject),
        )


def _target(path: str, request: Message | None, response: object) -> str:
    """Return "agent:<id>" for the path "agent.agent_id" of a request, or else of its response; empty for no path."""
    for message in (request, response):
        value: Any = message
        for name in path.split(".") if path else ():
            value = getattr(value, name, "")
        if isinstance(value, str) and value:
            return target_of(path.rpartition(".")[2].removesuffix("_id"), value)
    return ""


def target_of(kind: str, id_: str) -> str:
    """Return the target of an event: "agent:<id>"."""
    return _printable(f"{kind}:{id_}", _MAX_TARGET)


def _printable(text: str, max_characters: int) -> str:
    return "".join(character for character in text if character.isprintable())[:max_characters]
