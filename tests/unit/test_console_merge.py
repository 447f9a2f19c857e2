"""A form saves the fields that were typed in, and leaves what another caller changed meanwhile."""

from __future__ import annotations

from skein_gateway.console import field_merge


def test_a_field_that_both_changed_keeps_what_was_typed() -> None:
    base, now = {"a": "1", "b": "1", "c": "x\ny"}, {"a": "2", "b": "2", "c": "x\ny"}

    merged = field_merge.merge(base, now, {"a": "1", "b": "3", "c": "x\r\ny"})

    assert merged == {"a": "2", "b": "3", "c": "x\ny"}
    assert [one.label for one in field_merge.differences(now, merged, {"a": "A", "b": "B", "c": "C"})] == ["B"]
