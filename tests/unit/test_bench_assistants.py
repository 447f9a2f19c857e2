"""The chats with an assistant are whole: each label names a turn, and each kind has questions enough to compare."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from skein.session.v1 import session_pb2
from skein_cluster.bench.conversations import read_conversations

CONVERSATIONS = read_conversations(Path(__file__).parents[1] / "bench" / "assistants.json")
KINDS = {"list", "count", "order", "standing wish", "change of mind", "same name"}


def test_each_chat_has_more_than_a_hundred_and_twenty_turns_on_several_days() -> None:
    assert len(CONVERSATIONS) == 3
    for conversation in CONVERSATIONS:
        days = {message.create_time.ToDatetime().date() for message in conversation.messages}
        assert (len(conversation.messages) >= 120, len(days) >= 5) == (True, True), conversation.name


def test_the_person_and_the_assistant_have_their_roles() -> None:
    for conversation in CONVERSATIONS:
        roles = {(message.name == "Assistant", message.role) for message in conversation.messages}
        assert roles == {(True, session_pb2.MESSAGE_ROLE_ASSISTANT), (False, session_pb2.MESSAGE_ROLE_USER)}


def test_turns_and_questions_have_ids_of_their_own() -> None:
    for conversation in CONVERSATIONS:
        turns = Counter(message.external_id for message in conversation.messages)
        assert [name for name, count in turns.items() if count > 1] == [], conversation.name
    ids = Counter(question.question_id for conversation in CONVERSATIONS for question in conversation.questions)
    assert [name for name, count in ids.items() if count > 1 or not name] == []


def test_every_label_names_a_turn_of_its_chat() -> None:
    for conversation in CONVERSATIONS:
        turns = {message.external_id for message in conversation.messages}
        wrong = [asked.question_id for asked in conversation.questions if not asked.evidence or asked.evidence - turns]
        assert wrong == []


def test_each_kind_has_ten_of_sixty_questions() -> None:
    kinds = Counter(question.category for conversation in CONVERSATIONS for question in conversation.questions)

    assert kinds == dict.fromkeys(KINDS, 10)
