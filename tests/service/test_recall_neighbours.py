"""Recall of messages by what stands beside them in their session."""

from __future__ import annotations

import pytest
from fix_cluster import Tenant
from fix_receipts import recall_with_receipt

from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2
from skein_kit.ids import now

USER, ASSISTANT = session_pb2.MESSAGE_ROLE_USER, session_pb2.MESSAGE_ROLE_ASSISTANT
TURNS = ("The accordion is broken.", "Oh no!", "How come?", "It fell down.", "From the shelf?", "Yes, at night.")


async def say(tenant: Tenant, *roles: session_pb2.MessageRole) -> None:
    """Append the turns, each with the next of the roles."""
    messages = [
        session_pb2.Message(role=roles[place % len(roles)], content=content) for place, content in enumerate(TURNS)
    ]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s1", create_session=True, messages=messages)
    )


def told_by_words(response: pb.RecallResponse) -> list[str]:
    """Return the turns that the words of the query tell, their own or those beside them, in their order."""
    return [
        turn
        for turn in TURNS
        for hit in response.hits
        if hit.message.content == turn and any(part.signal == "lexical" and part.raw > 0 for part in hit.components)
    ]


@pytest.mark.parametrize(("roles", "count"), [((USER,), 5), ((USER, ASSISTANT), 3)], ids=["people", "assistant"])
async def test_short_turns_of_people_are_told_by_more_of_their_chat(
    tenant: Tenant, roles: tuple[session_pb2.MessageRole, ...], count: int
) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await say(tenant, *roles)
    present = await recall_with_receipt(tenant, "accordion", min_relevance=0)
    then = await tenant.recall.Recall(pb.RecallRequest(query="accordion", min_relevance=0, as_of_time=now()))

    replayed = await tenant.recall.ReplayRecall(pb.ReplayRecallRequest(receipt_id=present.receipt_id))

    assert told_by_words(present) == list(TURNS[:count])
    assert told_by_words(then) == list(TURNS[:count])
    assert told_by_words(replayed.response) == list(TURNS[:count])
    assert replayed.identical, replayed
