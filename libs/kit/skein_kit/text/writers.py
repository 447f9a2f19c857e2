"""Which principals the fields of a block or a profile are statements of, and the trust that follows. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from skein_kit.text.source_keys import NEUTRAL_TRUST, source_key


@dataclass(frozen=True, slots=True)
class Writers:
    """The principals that each field has words of, in the order of their first change."""

    of_fields: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, fields: Iterable[str], *principals: str) -> Self:
        """Return the writers of fields that were all written by some principals."""
        names = tuple(dict.fromkeys(name for name in principals if name))
        return cls({field: names for field in fields if names})

    @classmethod
    def read(cls, text: str) -> Self:
        """Read the JSON text of the database."""
        return cls({field: tuple(names) for field, names in json.loads(text).items()})

    @property
    def text(self) -> str:
        """The JSON text for the database."""
        return json.dumps({field: list(names) for field, names in self.of_fields.items()}, ensure_ascii=False)

    @property
    def names(self) -> tuple[str, ...]:
        """All principals, each once."""
        return tuple(dict.fromkeys(name for names in self.of_fields.values() for name in names))

    @property
    def keys(self) -> frozenset[str]:
        """The source keys of all principals, which may be rated."""
        return frozenset(map(source_key, self.names))

    def replaced(self, field: str, *principals: str) -> Self:
        """Return the writers after a field was replaced by words of these principals."""
        return type(self)({**self.of_fields, field: tuple(dict.fromkeys(name for name in principals if name))})

    def joined(self, other: Writers) -> Self:
        """Return the writers of fields that have words of both."""
        fields = dict.fromkeys([*self.of_fields, *other.of_fields])
        return type(self)(
            {
                field: tuple(dict.fromkeys((*self.of_fields.get(field, ()), *other.of_fields.get(field, ()))))
                for field in fields
            }
        )

    def trust(self, ratings: Mapping[str, float]) -> float | None:
        """Return the lowest rating of a writer, at most the neutral one unless all are rated; None: none is rated."""
        rated = [ratings[key] for key in self.keys if key in ratings]
        if not rated:
            return None
        return min(rated) if len(rated) == len(self.keys) else min(*rated, NEUTRAL_TRUST)


def is_trusted(trust: float | None, min_trust: float) -> bool:
    """Return whether a trust, None for the neutral one, is enough."""
    return (NEUTRAL_TRUST if trust is None else trust) >= min_trust
