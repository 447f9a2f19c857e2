"""Turns of context ledgers: reads and checks a ledger beside the search, and stores it after the text is made."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from functools import cache

import grpc
from grpc import aio
from prometheus_client import Counter

from skein.gateway.v1 import gateway_pb2 as pb
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import ledgers_pb2, session_pb2_grpc
from skein_gateway.context import convert, ledger_messages
from skein_gateway.context.convert import run_by_length
from skein_gateway.context.ledger import Change, Check, Ledger, Rebase, Turn, append, first_text, repeat
from skein_gateway.context.model import Item, ItemKey, ItemKind
from skein_gateway.errors import ContextLedgerChanged, ContextLedgerNotFound
from skein_gateway.recall.rpc import RecallResult, item_filter, may_call
from skein_kit.calls.call import Context, current_call
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import RequestIdReused
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import EPOCH, now
from skein_kit.rpc.interceptors import translate_upstream

TURNS = Counter(
    "skein_gateway_context_turns_total",
    "Turns of context ledgers: appends, and new first texts by their reason.",
    ["kind"],
)
_SALT_BYTES = 16
_DEFAULT_SPACES = frozenset({str(DEFAULT_SPACE)})
_RECALL = ACCESS_RULES["/skein.recall.v1.RecallService/Recall"]
# An unchanged ledger with less time to live is stored again: it must not expire while its conversation goes on.
_TOUCHED_TTL = timedelta(hours=23)
_KINDS = {recall_pb2.ITEM_KIND_MEMORY: ItemKind.MEMORY, recall_pb2.ITEM_KIND_MESSAGE: ItemKind.MESSAGE}


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownLedger:
    """A caller's ledger before a turn, with what recall says of its items."""

    # None: the caller has none.
    stored: ledgers_pb2.ContextLedger | None
    # The request was answered before.
    is_repeat: bool = False
    # Of memories and messages that are not as they were.
    checks: Mapping[ItemKey, Check] = field(default_factory=dict)
    # What the caller sees, and what this call reaches of it.
    visible_space_ids: frozenset[str] = _DEFAULT_SPACES
    space_ids: frozenset[str] = _DEFAULT_SPACES

    @property
    def ledger(self) -> Ledger:
        """Return the ledger; a new one if the caller has none."""
        if self.stored is None:
            return Ledger(revision=0, salt=secrets.token_bytes(_SALT_BYTES))
        return ledger_messages.ledger(self.stored)

    @property
    def rebase(self) -> Rebase:
        """Why the last turn had a first text."""
        return Rebase.NONE if self.stored is None else Rebase(self.stored.rebase)

    def is_continued_by(self, request: pb.BuildContextRequest) -> bool:
        """Tell whether a request goes on from the ledger's texts, with the same reader."""
        if self.stored is None or not request.ledger_revision or not self._spaces_of_texts <= self.space_ids:
            return False
        return self.stored.reader_digest == ledger_messages.reader_digest(request, self.stored.salt)

    @property
    def has_lost_space(self) -> bool:
        """Whether the texts may be of a space that the caller no longer sees."""
        return not self._spaces_of_texts <= self.visible_space_ids

    @property
    def _spaces_of_texts(self) -> frozenset[str]:
        return frozenset() if self.stored is None else frozenset(self.stored.space_ids) or _DEFAULT_SPACES


class LedgerTurns:
    """Makes the texts of turns."""

    def __init__(
        self,
        ledgers: session_pb2_grpc.SessionInternalServiceAsyncStub,
        recall: recall_pb2_grpc.RecallInternalServiceAsyncStub,
    ) -> None:
        self._ledgers = ledgers
        self._recall = recall

    async def read(self, request: pb.BuildContextRequest, *, seconds: float) -> KnownLedger:
        """Read the ledger of a request, and check its items, within `seconds`.

        Raises ContextLedgerNotFound, ContextLedgerChanged and RequestIdReused.
        """
        ledger_request = ledgers_pb2.GetContextLedgerRequest(ledger_id=request.ledger_id)
        try:
            response = await self._ledgers.GetContextLedger(ledger_request, timeout=seconds)
        except aio.AioRpcError as error:
            raise translate_upstream(error, service="session") from None
        if not response.HasField("ledger"):
            if request.ledger_revision:
                raise ContextLedgerNotFound
            return _with_reach(KnownLedger(stored=None))
        stored = response.ledger
        if is_repeat := bool(request.request_id) and request.request_id == stored.request_id:
            if stored.request_digest != ledger_messages.request_digest(request, stored.salt):
                raise RequestIdReused
        elif request.ledger_revision not in (0, stored.revision):
            raise ContextLedgerChanged(requested=request.ledger_revision, current=stored.revision)
        known = _with_reach(KnownLedger(stored=stored, is_repeat=is_repeat))
        if known.has_lost_space or not (is_repeat or known.is_continued_by(request)):
            return known
        return replace(known, checks=await self._check(request, known, seconds))

    async def make(
        self,
        request: pb.BuildContextRequest,
        known: KnownLedger,
        result: RecallResult,
        candidates: Sequence[Item],
        context: Context,
        *,
        seconds: float,
    ) -> Turn:
        """Make the text of a turn and store the ledger after it. Raises ContextLedgerChanged and QuotaExceeded."""
        changed = (check.item for check in known.checks.values() if check.item is not None)
        turn = await run_by_length(
            (*candidates, *changed), _turn_of, request, known, result, candidates, caller_of(context)
        )
        if known.stored is not None and _is_same(turn, known.stored):
            return replace(turn, ledger=replace(turn.ledger, revision=known.stored.revision))
        turn = turn.counted()
        put_request = ledgers_pb2.PutContextLedgerRequest(
            ledger=ledger_messages.ledger_message(request, turn, sorted(known.space_ids)),
            last_revision=0 if known.stored is None else known.stored.revision,
        )
        try:
            await self._ledgers.PutContextLedger(put_request, timeout=seconds)
        except aio.AioRpcError as error:
            failure = translate_upstream(error, service="session")
            if error.code() is not grpc.StatusCode.ABORTED or not request.request_id:
                raise failure from None
            # The same request may have come twice at once.
            known = await self.read(request, seconds=seconds)
            if not known.is_repeat:
                raise failure from None
            return await self.make(request, known, result, candidates, context, seconds=seconds)
        _counter(turn.rebase).inc()
        return turn

    async def _check(self, request: pb.BuildContextRequest, known: KnownLedger, seconds: float) -> dict[ItemKey, Check]:
        items = ledger_messages.known_items(known.ledger, is_repeat=known.is_repeat)
        if not items:
            return {}
        check_request = recall_pb2.CheckItemsRequest(
            items=items,
            filter=item_filter(request.recall),
            min_trust=request.recall.min_trust,
            session_id=request.session_id,
        )
        try:
            response = await self._recall.CheckItems(check_request, timeout=seconds)
        except aio.AioRpcError as error:
            raise translate_upstream(error, service="recall") from None
        kinds = {item.item_id: _KINDS[item.kind] for item in items}
        return {
            (kinds[checked.item_id], checked.item_id): Check(
                change=Change(checked.state),
                item=convert.hit_item(checked.item) if checked.HasField("item") else None,
            )
            for checked in response.items
        }


def _turn_of(
    request: pb.BuildContextRequest,
    known: KnownLedger,
    result: RecallResult,
    candidates: Sequence[Item],
    caller: Caller,
) -> Turn:
    """Return the append to a ledger, or a first text where there can be none."""
    options, ledger = convert.pack_options(request), known.ledger
    rebase = Rebase.REQUESTED
    if known.has_lost_space:
        ledger = replace(ledger, revision=_next_revision(known), entries=())
        return first_text(candidates, options, ledger, Rebase.SPACE_LOST)
    if known.is_repeat:
        repeated = repeat(_present_items(known, result), options, ledger, known.rebase)
        if not isinstance(repeated, Rebase):
            return repeated
        rebase = repeated
    ledger = replace(ledger, revision=_next_revision(known))
    if known.is_continued_by(request) and not known.is_repeat:
        checks = {**known.checks, **_checks_of_branches(ledger, result, caller)}
        turn = append(candidates, checks, options, ledger)
        if not isinstance(turn, Rebase):
            return turn
        rebase = turn
        gone = {key for key, check in checks.items() if check.change is Change.GONE}
        ledger = replace(ledger, entries=tuple(entry for entry in ledger.entries if entry.key not in gone))
    elif known.stored is not None and request.ledger_revision and not known.is_repeat:
        rebase = Rebase.REQUEST_CHANGED
    return first_text(candidates, options, ledger, rebase)


def _with_reach(known: KnownLedger) -> KnownLedger:
    """Return it with the spaces that the caller sees, and those that the call reaches."""
    call = current_call()
    if call is None or call.caller is None or call.caller.spaces is None:
        return known
    return replace(
        known,
        visible_space_ids=frozenset(str(space_id) for space_id, _ in call.caller.spaces),
        space_ids=frozenset(map(str, _RECALL.space_ids(call.caller, call.named_space) or ())),
    )


def _next_revision(known: KnownLedger) -> int:
    """Return the revision after a turn; that of a new ledger is higher than that of any earlier one of its name."""
    return (now() - EPOCH) // timedelta(milliseconds=1) if known.stored is None else known.stored.revision + 1


def _is_same(turn: Turn, stored: ledgers_pb2.ContextLedger) -> bool:
    """Tell whether a turn leaves the ledger as it is stored, and has it live long enough."""
    if turn.ledger.revision == stored.revision:
        return True
    is_due = stored.expire_time.ToDatetime(UTC) - now() < _TOUCHED_TTL
    return not turn.rebase and not is_due and turn.ledger.entries == ledger_messages.ledger(stored).entries


def _checks_of_branches(ledger: Ledger, result: RecallResult, caller: Caller) -> dict[ItemKey, Check]:
    """Return the blocks and the profile that are not as they were, as far as this turn has read them."""
    present = _blocks_and_profile(result)
    branches = {ItemKind.BLOCK: pb.BRANCH_BLOCKS, ItemKind.PROFILE: pb.BRANCH_PROFILE}
    checks = {}
    for entry in ledger.sent:
        if entry.kind not in branches:
            continue
        items = present.get(entry.kind)
        item = None if items is None else items.get(entry.item_id)
        if not may_call(caller, branches[entry.kind]) or (items is not None and item is None):
            checks[entry.key] = Check(change=Change.GONE)
        elif item is not None and item.revision != entry.revision:
            checks[entry.key] = Check(change=Change.CHANGED, item=item)
    return checks


def _present_items(known: KnownLedger, result: RecallResult) -> dict[ItemKey, Item]:
    """Return the items of a repeated turn, as they are."""
    present = {key: check.item for key, check in known.checks.items() if check.item is not None}
    for items in _blocks_and_profile(result).values():
        present |= {item.key: item for item in items.values()}
    return present


def _blocks_and_profile(result: RecallResult) -> dict[ItemKind, dict[str, Item]]:
    """Return the blocks and the profile that this turn has read, by id; a kind that it has not read is missing."""
    read: dict[ItemKind, dict[str, Item]] = {}
    for branch_result in result.results:
        if branch_result.blocks is not None:
            read[ItemKind.BLOCK] = {block.block_id: convert.block_item(block) for block in branch_result.blocks}
        outcome = branch_result.outcomes[0]
        if outcome.branch == pb.BRANCH_PROFILE and outcome.state == pb.BRANCH_STATE_OK:
            profile = branch_result.profile
            read[ItemKind.PROFILE] = {} if profile is None else {profile.subject_id: convert.profile_item(profile)}
    return read


@cache
def _counter(rebase: Rebase) -> Counter:
    return TURNS.labels("append" if rebase is Rebase.NONE else rebase.name.lower())
