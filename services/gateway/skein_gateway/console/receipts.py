"""The receipt pages: a list by time and principal, and "why this answer" with replay and download."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from google.protobuf import json_format
from starlette.requests import Request
from starlette.responses import Response

from skein.gateway.v1 import gateway_pb2
from skein.recall.v1 import recall_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.item_names import item_links
from skein_gateway.console.pages import HEADERS, form_page, list_page
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.console.search import hit_with_bar, time_of
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other

_PAGE = 25
_BAD_TIME = PageError(title="No time", text="A time needs a date and a time of day.", status=400)
_NO_RECEIPT = PageError(
    title="No receipt",
    text="The answer of now got no receipt to compare. The policy “Answers with a receipt” decides.",
    status=409,
)
# The weights of a receipt, in its order.
_WEIGHTS = ("dense", "context", "lexical", "reply", "statement", "length", "time", "date", "tokens")
# What a search compared, by its dense path.
_PATHS: Mapping[str, str] = {
    "cached": "exact: every vector was compared, in the vector cache",
    "exact": "exact: every vector was compared, in the index",
    "rescored": "candidates by their first dimensions, the best of them compared by all",
    "approximate": "approximate: about one in a hundred of the nearest is missed",
    "none": "by words alone: no vectors were compared",
}
# Why a replay is not whole.
GAPS: Mapping[int, str] = {
    recall_pb2.REPLAY_GAP_REASON_ITEMS_PURGED: "Items of the answer were purged since",
    recall_pb2.REPLAY_GAP_REASON_ITEMS_ARCHIVED: "Items of the answer are in cold storage, which keeps no history",
    recall_pb2.REPLAY_GAP_REASON_TEXTS_ALTERED: "Texts were changed in the database, past Skein",
    recall_pb2.REPLAY_GAP_REASON_OTHERS_PURGED: "Items that the answer had not were purged or archived since",
    recall_pb2.REPLAY_GAP_REASON_MODEL_DROPPED: "The model was deleted with its vectors",
    recall_pb2.REPLAY_GAP_REASON_REQUEST_ERASED: "The request was erased with a person whom it may name",
    recall_pb2.REPLAY_GAP_REASON_FORMULA_CHANGED: "This version of Skein scores by another formula",
    recall_pb2.REPLAY_GAP_REASON_PACKER_CHANGED: "This version of Skein packs texts in another way",
    recall_pb2.REPLAY_GAP_REASON_HISTORY_ENDED: "The tenant's retention has removed the history of that time",
}
_MISSING: Mapping[int, str] = {
    recall_pb2.REPLAY_GAP_REASON_ITEMS_PURGED: "purged since",
    recall_pb2.REPLAY_GAP_REASON_ITEMS_ARCHIVED: "in cold storage",
    recall_pb2.REPLAY_GAP_REASON_TEXTS_ALTERED: "text changed in the database",
}


class _Replay(NamedTuple):
    """A replayed answer as the page shows it."""

    response: recall_pb2.ReplayRecallResponse
    # Hits by id, with the bars of their scores.
    hits: Mapping[str, Mapping[str, Any]]
    differing_ids: frozenset[str]
    # What became of hits that are missing, by id.
    missing: Mapping[str, str]
    # Items that the search, run again, found beside those of the receipt.
    other_ids: list[str]


async def list_receipts(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List receipts, newest first."""
    filters = {name: parameters.get(name).strip() for name in ("principal", "since", "until")}
    response: recall_pb2.ListRecallReceiptsResponse | PageError
    try:
        list_request = recall_pb2.ListRecallReceiptsRequest(
            page_size=_PAGE,
            page_token=parameters.get("page"),
            principal=filters["principal"],
            start_time=time_of(filters["since"]),
            end_time=time_of(filters["until"]),
        )
    except (ValueError, OverflowError):
        response = _BAD_TIME
    else:
        response = await or_page_error(context.api.recall.ListRecallReceipts(list_request))
    return list_page(
        "receipts",
        request,
        context,
        parameters,
        response,
        title="Receipts",
        filters=filters,
        sees_all=context.may("audit.read"),
        is_narrowed=any(filters.values()),
    )


async def show_receipt(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show a receipt in words."""
    return await _show(request, context, await _receipt(context, parameters))


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Replay the answer, make its text again, or ask the same now and compare."""
    receipt = await _receipt(context, parameters)
    decision, query = form.get("decision"), form.get("query")
    if decision == "replay":
        replay_request = recall_pb2.ReplayRecallRequest(receipt_id=receipt.receipt_id, query=query)
        response = await or_page_error(context.api.recall.ReplayRecall(replay_request))
        if isinstance(response, PageError):
            return await _show(request, context, receipt, failure=response)
        return await _show(request, context, receipt, replay=_replay(receipt, response))
    if decision == "text":
        text_request = gateway_pb2.ReplayContextRequest(receipt_id=receipt.receipt_id, query=query)
        remade = await or_page_error(context.api.gateway.ReplayContext(text_request))
        if isinstance(remade, PageError):
            return await _show(request, context, receipt, failure=remade)
        return await _show(request, context, receipt, remade=remade)
    if decision == "now":
        return await _compare_with_now(request, context, receipt, query)
    raise FormInvalid("Choose what to do with the receipt, then send the form again.")


async def _compare_with_now(
    request: Request, context: PageContext, receipt: recall_pb2.RecallReceipt, query: str
) -> Response:
    asked_now = recall_pb2.RecallRequest()
    asked_now.CopyFrom(receipt.request)
    asked_now.query = receipt.query or query
    answer = await or_page_error(context.api.recall.Recall(asked_now))
    if isinstance(answer, PageError):
        return await _show(request, context, receipt, failure=answer)
    if not answer.receipt_id:
        return await _show(request, context, receipt, failure=_NO_RECEIPT)
    return see_other(context.url("difference", id=receipt.receipt_id, other=answer.receipt_id))


async def download(_request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Return the receipt's file, with the bytes that `skein receipts get` saves."""
    receipt = await _receipt(context, parameters)
    headers = {**HEADERS, "content-disposition": f'attachment; filename="{receipt.receipt_id}.json"'}
    return Response(receipt.document.encode(), media_type="application/json", headers=headers)


async def _receipt(context: PageContext, parameters: Parameters) -> recall_pb2.RecallReceipt:
    rpc_request = recall_pb2.GetRecallReceiptRequest(receipt_id=parameters.get("id").strip())
    return (await context.api.recall.GetRecallReceipt(rpc_request)).receipt


async def _show(
    request: Request,
    context: PageContext,
    receipt: recall_pb2.RecallReceipt,
    *,
    replay: _Replay | None = None,
    remade: gateway_pb2.ReplayContextResponse | None = None,
    failure: PageError | None = None,
) -> Response:
    items = [(hit.kind, hit.item_id) for hit in receipt.hits]
    if replay is not None:
        # What the replay read is at hand; only the others need their names.
        items = [(kind, item_id) for kind, item_id in items if item_id not in replay.hits]
        items += [(recall_pb2.ITEM_KIND_MEMORY, item_id) for item_id in replay.other_ids]
    statement = receipt.statement
    return form_page(
        "receipt",
        request,
        context,
        at="receipts",
        title="Why this answer",
        failure=failure,
        receipt=receipt,
        statement=statement,
        weights=list(zip(_WEIGHTS, statement.weights, strict=False)),
        search=_PATHS.get(statement.dense_path, statement.dense_path),
        request_json=_request_json(receipt),
        # Without its text, a query is asked for; it may be erased.
        needs_query=not receipt.query and not receipt.request_erased,
        links=await item_links(context, items),
        replay=replay,
        remade=remade,
        gaps=GAPS,
    )


def _request_json(receipt: recall_pb2.RecallReceipt) -> str:
    """Return the fields of the request but for the text, as JSON; empty without any."""
    asked = recall_pb2.RecallRequest()
    asked.CopyFrom(receipt.request)
    del asked.embedding[:]
    text = json_format.MessageToJson(asked, preserving_proto_field_name=True)
    return "" if text == "{}" else text


def _replay(receipt: recall_pb2.RecallReceipt, response: recall_pb2.ReplayRecallResponse) -> _Replay:
    own_ids = {hit.item_id for hit in receipt.hits}
    return _Replay(
        response=response,
        hits={hit.item_id: hit_with_bar(hit) for hit in response.response.hits},
        differing_ids=frozenset(response.differing_ids) & own_ids,
        missing={item_id: _MISSING[gap.reason] for gap in response.gaps for item_id in gap.item_ids},
        other_ids=[item_id for item_id in response.differing_ids if item_id not in own_ids],
    )
