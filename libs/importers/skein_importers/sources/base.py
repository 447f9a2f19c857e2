"""What every format of a system that people move in from is read by: sources, their realms, and notes for the report.

A source is read in a worker thread, one call after another and never two at once; a source that needs an event loop has
one of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from skein_importers.records import Record, UnreadableRecord

# Places that a report names of everything of one sort.
SAMPLES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Realm:
    """What a source keeps apart from everything else in it, and a tenant keeps apart here."""

    # Its id in the source; --realm takes it, or either slug.
    key: str
    name: str
    # Of the tenant that --all makes for it: lower-case letters, digits and hyphens.
    slug: str
    # The slug that it has in the source; empty for none.
    source_slug: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """Somebody who signs in to the source."""

    where: str
    email: str
    # As AuthService's CreateAccount takes it; empty for nobody who has a password.
    password_hash: str = ""
    display_name: str = ""
    create_time: datetime | None = None
    update_time: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OAuthClient:
    """A program that signs people in through OAuth."""

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
    """What a person may do in a realm."""

    where: str
    realm: str
    email: str
    # owner, admin, member or viewer.
    role: str


@dataclass(slots=True)
class CountWithSamples:
    """How often something happened, and where first."""

    count: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, where: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(where)


@dataclass(slots=True)
class Notes:
    """What the mapping report says beside what was written: places and counts, never content."""

    # Rows read, by table.
    rows: Counter[str] = field(default_factory=Counter)
    # Values that came over in another form, by table, column and what was done.
    conversions: dict[tuple[str, str, str], CountWithSamples] = field(default_factory=dict)
    # Rows knowingly left behind, by table and why.
    ignored: Counter[tuple[str, str]] = field(default_factory=Counter)

    def read(self, table: str) -> None:
        """Count a row that was read."""
        self.rows[table] += 1

    def count_converted(self, table: str, column: str, how: str, where: str) -> None:
        """Count a value that came over in another form; `how` says which, `where` names the row."""
        self.conversions.setdefault((table, column, how), CountWithSamples()).add(where)

    def count_ignored(self, table: str, why: str) -> None:
        """Count a row that was left behind."""
        self.ignored[table, why] += 1


class Source(Protocol):
    """One file or database of another system, open for reading."""

    @property
    def name(self) -> str:
        """The name of its format."""

    def tenants(self) -> list[Realm]:
        """Return its realms, in the order of their keys; a source that keeps nothing apart has one."""

    def records(self, realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read a realm row by row, the same order each time, kinds in the order of `Kind`."""

    def people(self, notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Read who signs in: people, then clients, then memberships; nothing where there are no accounts."""
