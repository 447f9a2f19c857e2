"""The RPCs by which the gateway keeps context ledgers, and callers list them."""

from __future__ import annotations

from uuid import UUID

from skein.session.v1 import ledgers_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PageTokenInvalid, PermissionMissing
from skein_kit.ids import now
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_session.ledgers import convert
from skein_session.ledgers.store import LedgerStore

# The permission to read ledgers of other callers: a filter may have shown more to one principal than to another.
_READ_ALL = "audit.read"


class LedgerHandlers:
    """Reads and stores ledgers of the caller, and lists those that it may read."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store

    async def GetContextLedger(
        self, request: pb.GetContextLedgerRequest, context: Context
    ) -> pb.GetContextLedgerResponse:
        row = await self._store.get_ledger(caller_of(context), request.ledger_id, now())
        return pb.GetContextLedgerResponse(ledger=None if row is None else convert.ledger(row))

    async def ListContextLedgers(
        self, request: pb.ListContextLedgersRequest, context: Context
    ) -> pb.ListContextLedgersResponse:
        caller = caller_of(context)
        principal = request.principal
        if _READ_ALL not in caller.permissions:
            principal = principal or caller.principal
            if principal != caller.principal:
                raise PermissionMissing(permission=_READ_ALL)
        size = resolve_page_size(request.page_size)
        rows = await self._store.list_ledgers(
            caller,
            now(),
            after=_position(request, caller.require_tenant()),
            limit=size + 1,
            principal=principal or None,
            ledger_id=request.ledger_id or None,
            session_id=request.in_session_id or None,
        )
        ledgers = fit_items(convert.exported_ledger(row, with_entries=bool(request.ledger_id)) for row in rows[:size])
        response = pb.ListContextLedgersResponse(ledgers=ledgers)
        if ledgers and len(ledgers) < len(rows):
            last = ledgers[-1]
            response.next_page_token = write_token(
                [last.principal, last.agent_id, last.ledger_id], caller.require_tenant(), request
            )
        return response

    async def PutContextLedger(
        self, request: pb.PutContextLedgerRequest, context: Context
    ) -> pb.PutContextLedgerResponse:
        at = now()
        await self._store.put_ledger(
            caller_of(context), convert.columns(request.ledger, at), last_revision=request.last_revision, at=at
        )
        return pb.PutContextLedgerResponse(revision=request.ledger.revision)


def _position(request: pb.ListContextLedgersRequest, tenant_id: UUID) -> tuple[str, str, str]:
    """Return maker, agent and name of the last ledger of the page before. Raises PageTokenInvalid."""
    cursor = read_token(request.page_token, tenant_id, request)
    if cursor is None:
        return "", "", ""
    try:
        principal, agent_id, ledger_id = cursor
    except ValueError:
        raise PageTokenInvalid from None
    return principal, agent_id, ledger_id
