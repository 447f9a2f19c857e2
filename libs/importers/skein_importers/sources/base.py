"""The interface of all formats: sources, their realms, and notes for the report.

A source is read in a worker thread, one call at a time; a source that needs an event loop has its own.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from skein_importers.records import Record, UnreadableRecord

_MAX_SLUG_CHARACTERS = 63
_SLUG = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")

# Places that a report names for one kind of note.
SAMPLES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Realm:
    """An isolated part of a source, which becomes a tenant."""

    # Its id in the source; --realm takes it, or either slug.
    key: str
    name: str
    # Of the tenant that --all makes for it: lower-case letters, digits and hyphens.
    slug: str
    # The slug that it has in the source; empty for none.
    source_slug: str = ""
    # When it was made and changed there, by the names of the columns; the tenant keeps them as metadata.
    times: Mapping[str, object] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """A person with an account in the source."""

    where: str
    email: str
    # In the form of AuthService's CreateAccount; empty without a password.
    password_hash: str = ""
    display_name: str = ""
    create_time: datetime | None = None
    update_time: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OAuthClient:
    """An OAuth client of the source."""

    where: str
    client_id: str
    name: str = ""
    redirect_uris: Sequence[str] = ()
    grant_types: Sequence[str] = ()
    response_types: Sequence[str] = ()
    auth_method: str = "none"
    # SHA-256, hexadecimal; empty for a public client.
    secret_hash: str = ""
    secret_expire_time: datetime | None = None
    create_time: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """A person's role in a realm."""

    where: str
    realm: str
    email: str
    # owner, admin, member or viewer.
    role: str


@dataclass(slots=True)
class CountWithSamples:
    """A count, and its first places."""

    count: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, where: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(where)


@dataclass(slots=True)
class Notes:
    """Notes of the mapping report: places and counts, never content."""

    # Rows read, by table.
    rows: Counter[str] = field(default_factory=Counter)
    # Converted values by table, column and conversion.
    conversions: dict[tuple[str, str, str], CountWithSamples] = field(default_factory=dict)
    # Rows ignored on purpose, by table and reason.
    ignored: Counter[tuple[str, str]] = field(default_factory=Counter)

    def read(self, table: str) -> None:
        """Count a row that was read."""
        self.rows[table] += 1

    def count_converted(self, table: str, column: str, conversion: str, where: str) -> None:
        """Count a converted value of the row that `where` names."""
        self.conversions.setdefault((table, column, conversion), CountWithSamples()).add(where)

    def count_ignored(self, table: str, reason: str) -> None:
        """Count an ignored row."""
        self.ignored[table, reason] += 1


class Source(Protocol):
    """One file or database of another system, open for reading."""

    @property
    def name(self) -> str:
        """The name of its format."""

    def tenants(self) -> list[Realm]:
        """Return the realms in the order of their keys, at least one."""

    def records(self, realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read a realm's records in a stable order, kinds in the order of `Kind`."""

    def accounts(self, notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Read people, then OAuth clients, then memberships; empty for a source without accounts."""


def slug_of(name: str, key: str, slug: str = "") -> str:
    """Return the realm's valid slug, or one of its name and a hash of its key."""
    if slug and len(slug) <= _MAX_SLUG_CHARACTERS and _SLUG.fullmatch(slug):
        return slug
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii").lower()
    words = re.sub(r"[^a-z0-9]+", "-", ascii_name).strip("-")
    end = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{words[: _MAX_SLUG_CHARACTERS - len(end) - 1].strip('-')}-{end}" if words else end
