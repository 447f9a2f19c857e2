from __future__ import annotations

import uuid

import pytest
from fix_catalogue import over

from skein_kit.database.named_queries import Query, inline_values, with_schema

QUERY = Query.parse("add", "INSERT INTO any_schema.usage VALUES (:tenant_id, :kind, :amount, :kind)")


def test_values_stand_where_their_names_did() -> None:
    tenant_id = uuid.UUID(int=7)

    text = inline_values(with_schema("memory", QUERY), {"tenant_id": tenant_id, "kind": "o'clock", "amount": -3})

    assert text.partition(" VALUES ")[2] == f"('{tenant_id}', 'o''clock', -3, 'o''clock')"
    assert "memory.usage" in text


@over("value", ["back\\slash", b"bytes", None, 1.5])
def test_a_value_without_a_plain_form_is_not_inlined(value: object) -> None:
    with pytest.raises(TypeError):
        inline_values(QUERY, {"tenant_id": uuid.UUID(int=7), "kind": value, "amount": 1})  # type: ignore[dict-item]  # On purpose.


def test_a_missing_value_is_named() -> None:
    with pytest.raises(TypeError, match="amount"):
        inline_values(QUERY, {"tenant_id": uuid.UUID(int=7), "kind": "x"})
