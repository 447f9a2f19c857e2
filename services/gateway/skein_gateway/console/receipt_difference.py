"""The difference page: two answers by their receipts, and which change of the log moved each hit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from skein.recall.v1 import recall_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.item_names import item_links
from skein_gateway.console.pages import page
from skein_gateway.oauth.forms import Parameters

_INPUTS: Mapping[str, str] = {
    "query": "the text of the query",
    "request": "the other fields of the request",
    "principal": "who asked",
    "model": "the model",
    "formula": "the formula",
    "weights": "the weights",
    "language": "the language of words",
    "corpus": "the counts of documents and words, by which words are weighed",
    "vector": "whether the query had a vector",
}
CAUSES: Mapping[str, str] = {
    "item": "its own changes",
    "inputs": "another question, model or formula",
    "others": "changes of other items",
    "none": "no difference",
}


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Compare two answers, the earlier one first."""
    # Ids of receipts are in the order of time.
    earlier_id, later_id = sorted((parameters.get("id").strip().lower(), parameters.get("other").strip().lower()))
    api = context.api.recall
    earlier, later, difference = await asyncio.gather(
        api.GetRecallReceipt(recall_pb2.GetRecallReceiptRequest(receipt_id=earlier_id)),
        api.GetRecallReceipt(recall_pb2.GetRecallReceiptRequest(receipt_id=later_id)),
        api.DiffRecall(recall_pb2.DiffRecallRequest(receipt_id=earlier_id, other_receipt_id=later_id)),
    )
    groups: dict[str, list[recall_pb2.HitDifference]] = {"moved": [], "shifted": [], "same": []}
    for hit in difference.hits:
        groups[_group(hit)].append(hit)
    return page(
        "difference",
        request,
        context,
        at="receipts",
        title="What differs between two answers",
        earlier=earlier.receipt,
        later=later.receipt,
        inputs=[_INPUTS.get(name, name) for name in difference.changed_inputs],
        groups=groups,
        unknown=[_INPUTS.get(name, name) for name in difference.unknown_inputs],
        truncated=difference.changes_truncated,
        causes=CAUSES,
        links=await item_links(context, [(hit.kind, hit.item_id) for hit in difference.hits]),
    )


def _group(hit: recall_pb2.HitDifference) -> str:
    """Return whether a hit moved or changed itself, has other signals at the same rank, or is the same."""
    if hit.rank != hit.other_rank or hit.revision != hit.other_revision or hit.changes:
        return "moved"
    return "same" if hit.cause == "none" else "shifted"
