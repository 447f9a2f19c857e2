"""A distrusted item does not stand for what it repeats."""

from __future__ import annotations

from skein_gateway.context.model import ContextFormat, Item, ItemKind, PackOptions, pack

TRUTH = "Anna drinks green tea in the morning."


def packed(*items: Item) -> list[tuple[str, tuple[str, ...]]]:
    context = pack(items, PackOptions(token_budget=500, terms=frozenset(), context_format=ContextFormat()))
    return [(citation.item.item_id, citation.duplicate_ids) for citation in context.citations]


def memory(item_id: str, text: str, trust: float | None = None) -> Item:
    return Item(kind=ItemKind.MEMORY, item_id=item_id, text=text, type="note", trust=trust)


def test_a_distrusted_item_replaces_no_trusted_one_whose_words_it_contains() -> None:
    truth = memory("truth", TRUTH)

    for trust, expected in ((None, [("long", ("truth",))]), (0.1, [("truth", ()), ("long", ())])):
        longer = memory("long", f"{TRUTH} That is what they say, but it is coffee.", trust)

        # Whatever comes first.
        assert sorted(packed(truth, longer)) == sorted(expected)
        assert sorted(packed(longer, truth)) == sorted(expected)


def test_a_distrusted_copy_is_a_duplicate_of_the_trusted_item() -> None:
    assert packed(memory("truth", TRUTH), memory("copy", TRUTH, 0.1)) == [("truth", ("copy",))]
