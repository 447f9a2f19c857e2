from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

from fix_catalogue import over

from skein_memory.facts.model import MessageState

CHANGE = datetime(2026, 3, 11, 10, tzinfo=UTC)
BEFORE, AFTER = CHANGE - timedelta(seconds=1), CHANGE + timedelta(seconds=1)
CORRECTED = MessageState(message_id=UUID(int=1), change_time=CHANGE, revision=2)
DELETED = MessageState(message_id=UUID(int=1), change_time=CHANGE, revision=0)


@over(
    ("create_time", "metadata", "is_outdated"),
    [
        (BEFORE, '{"message_revision": 1}', True),
        (AFTER, '{"message_revision": 1}', True),
        (AFTER, '{"message_revision": 2}', False),
        # A person who edits a fact may remove its marks: its time decides.
        (AFTER, '{"message_revision": "mine"}', False),
        (AFTER, None, False),
        (BEFORE, None, True),
    ],
)
def test_a_correction_leaves_the_facts_of_its_own_revision(
    create_time: datetime, metadata: str | None, *, is_outdated: bool
) -> None:
    assert CORRECTED.makes_outdated(create_time, metadata) == is_outdated


@over(
    ("revision", "is_outdated"),
    [(1, True), (2, False)],
)
@over("create_time", [BEFORE, AFTER])
def test_a_confirmed_fact_ends_with_the_revision_of_its_statement_alone(
    create_time: datetime, revision: int, *, is_outdated: bool
) -> None:
    statement = {"message_id": str(CORRECTED.message_id), "revision": revision}
    metadata = json.dumps({"message_revision": 7, "statement": statement})
    another = json.dumps({"message_revision": 2, "statement": {**statement, "message_id": str(UUID(int=2))}})

    assert CORRECTED.makes_outdated(create_time, metadata) == is_outdated
    assert DELETED.makes_outdated(create_time, metadata)
    assert CORRECTED.makes_outdated(create_time, another) == (create_time == BEFORE)


def test_a_deletion_leaves_no_fact_whenever_it_was_stored() -> None:
    assert DELETED.makes_outdated(AFTER, '{"message_revision": 2}')
    assert DELETED.makes_outdated(AFTER, None)
