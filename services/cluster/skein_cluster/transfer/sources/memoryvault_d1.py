"""`memoryvault-d1`: MemoryVault's D1 database, brain by brain, with its people, their memberships and OAuth clients.

What only means something to its own server stays behind: sign-ins and their tokens, codes, limits on attempts; so do
snapshots and the changelog, which no call writes. A snapshot is made anew when everything is here.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from skein_cluster.transfer.records import Unreadable
from skein_cluster.transfer.sources.base import Client, Membership, Person, Realm
from skein_cluster.transfer.sources.memoryvault import LEGACY_BRAIN, Brain
from skein_cluster.transfer.sources.memoryvault import TABLES as BRAIN_TABLES
from skein_cluster.transfer.sources.passwords import password_hash_of, sha256_of
from skein_cluster.transfer.sources.rows import Row, Unusable, moment_of
from skein_cluster.transfer.sources.slugs import slug_of
from skein_cluster.transfer.sources.sqlite import Table, open_sqlite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from skein_cluster.transfer.records import Record
    from skein_cluster.transfer.sources.base import Notes
    from skein_cluster.transfer.sources.sqlite import Database

NAME = "memoryvault-d1"
LEGACY_USER = "legacy-token-user"
_TIMES = ("created_at", "updated_at")
TABLES = {
    "users": Table(needs=("id", "email", "password_hash"), may_have=("display_name", *_TIMES), optional=True),
    "brains": Table(needs=("id", "name"), may_have=("slug", "owner_user_id", *_TIMES)),
    "brain_memberships": Table(needs=("brain_id", "user_id"), may_have=("role", "created_at"), optional=True),
    "oauth_clients": Table(
        needs=("client_id", "redirect_uris"),
        may_have=(
            *("id", "client_name", "grant_types", "response_types", "token_endpoint_auth_method"),
            *("client_secret_hash", "client_secret_expires_at", *_TIMES),
        ),
        optional=True,
    ),
    "memories": Table(
        needs=("id", "brain_id", "content", "created_at"),
        may_have=(
            *("type", "title", "key", "tags", "source", "confidence", "importance", "archived_at", "updated_at"),
        ),
    ),
    "memory_links": Table(
        needs=("id", "brain_id", "from_id", "to_id"), may_have=("relation_type", "label", "created_at"), optional=True
    ),
    "brain_source_trust": Table(
        needs=("brain_id", "source_key", "trust"), may_have=("id", "notes", *_TIMES), optional=True
    ),
    "memory_entity_aliases": Table(
        needs=("brain_id", "canonical_memory_id", "alias_memory_id"),
        may_have=("id", "note", "confidence", *_TIMES),
        optional=True,
    ),
    "memory_conflict_resolutions": Table(
        needs=("brain_id", "a_id", "b_id", "status"), may_have=("id", "canonical_id", "note", *_TIMES), optional=True
    ),
    "brain_policies": Table(needs=("brain_id", "policy_json"), may_have=_TIMES, optional=True),
    "memory_watches": Table(
        needs=("id", "brain_id", "name", "event_types"),
        may_have=("query", "webhook_url", "secret", "is_active", *_TIMES),
        optional=True,
    ),
    "memory_changelog": Table(needs=("brain_id",), optional=True),
    "brain_snapshots": Table(needs=("brain_id",), optional=True),
    "auth_sessions": Table(needs=("id",), optional=True),
    "oauth_authorization_codes": Table(needs=("id",), optional=True),
    "rate_limits": Table(needs=("ip",), optional=True),
}
# Columns that name memories of the same brain.
_ENDS: Mapping[str, tuple[str, ...]] = {
    "memory_links": ("from_id", "to_id"),
    "memory_entity_aliases": ("alias_memory_id", "canonical_memory_id"),
    "memory_conflict_resolutions": ("a_id", "b_id"),
}
_KNOWN = (
    "EXISTS (SELECT 1 FROM memories AS other WHERE other.id = {table}.{column} AND other.brain_id = {table}.brain_id) "
    "AS {column}_known"
)
_LEFT_OF_BRAIN = {
    "memory_changelog": "what happened there; the history here begins with the import",
    "brain_snapshots": "copies in a form of its own; make a snapshot when the import is done",
}
_LEFT = {
    "auth_sessions": "sign-ins and their tokens; people sign in anew",
    "oauth_authorization_codes": "codes of ten minutes",
    "rate_limits": "attempts to sign in there",
}
_ROLES = frozenset({"owner", "admin", "member", "viewer"})


class MemoryVault:
    """An open database of MemoryVault."""

    name = NAME

    def __init__(self, database: Database) -> None:
        """Read `database`."""
        self._database = database

    def tenants(self) -> list[Realm]:
        """Return the brains, also those that only memories name."""
        realms = {
            str(row["id"]): Realm(
                key=str(row["id"]),
                name=str(row["name"] or row["id"]),
                slug=slug_of(
                    str(row["name"] or ""),
                    str(row["id"]),
                    LEGACY_BRAIN if row["id"] == LEGACY_BRAIN else str(row["slug"] or ""),
                ),
            )
            for row in self._database.rows("brains")
        }
        named = self._database.ask("SELECT DISTINCT brain_id FROM memories WHERE brain_id IS NOT NULL")
        for (key,) in named:
            realms.setdefault(str(key), Realm(key=str(key), name=str(key), slug=slug_of(str(key), str(key))))
        held = {str(key) for (key,) in self._database.ask("SELECT DISTINCT brain_id FROM memories")}
        if LEGACY_BRAIN in realms and LEGACY_BRAIN not in held and len(realms) > 1 and not self._is_used(LEGACY_BRAIN):
            # Every database is made with it; one that nobody used is nobody's.
            del realms[LEGACY_BRAIN]
        return [realms[key] for key in sorted(realms)]

    def records(self, realm: Realm, notes: Notes) -> Iterator[Record | Unreadable]:
        """Read a brain's memories, links, trust, aliases, conflicts, policy and watches."""
        brain = Brain(notes, self._keys(realm.key))
        for table in BRAIN_TABLES:
            known = ", ".join(_KNOWN.format(table=table, column=column) for column in _ENDS.get(table, ()))
            rows = self._database.rows(table, where="brain_id = ?", parameters=(realm.key,), also=known)
            yield from brain.records(table, rows)
        for table, why in _LEFT_OF_BRAIN.items():
            if self._database.has(table):
                statement = f"SELECT count(*) FROM {table} WHERE brain_id = ?"  # noqa: S608 - our names.
                if count := self._database.ask(statement, (realm.key,)).fetchone()[0]:
                    notes.leavings[table, why] += count

    def people(self, notes: Notes) -> Iterator[Person | Client | Membership | Unreadable]:
        """Read accounts, OAuth clients and who belongs to which brain."""
        emails: dict[str, str] = {}
        for row in self._rows("users", ("id",), notes):
            if row.key == LEGACY_USER:
                notes.left("users", "stands for the shared bearer token; AuthService.SetLegacyToken takes one")
                continue
            emails[row.key] = row.text("email").strip().lower()
            yield _person(row, emails[row.key])
        for row in self._rows("oauth_clients", ("client_id",), notes):
            try:
                yield _client(row)
            except (Unusable, ValueError) as error:
                yield Unreadable(where=row.where, reason=str(error), table=row.table)
        yield from self._memberships(notes, emails)
        for table, why in _LEFT.items():
            if (
                self._database.has(table)
                and (count := self._database.ask(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - our names.
            ):
                notes.leavings[table, why] += count

    def _memberships(self, notes: Notes, emails: Mapping[str, str]) -> Iterator[Membership | Unreadable]:
        brains = {str(row["id"]): row["owner_user_id"] for row in self._database.rows("brains")}
        seen: set[tuple[str, str]] = set()
        for row in self._rows("brain_memberships", ("brain_id", "user_id"), notes):
            brain, user = row.text("brain_id"), row.text("user_id")
            if user == LEGACY_USER:
                notes.left("brain_memberships", "of the shared bearer token")
                continue
            if brain not in brains or user not in emails:
                why = f"{'brain_id' if brain not in brains else 'user_id'} names nobody that is there"
                yield Unreadable(where=row.where, reason=why, table=row.table)
                continue
            role = row.text("role").strip().lower() or "member"
            if role not in _ROLES:
                row.coerced("role", "no such role here: viewer, the least")
                role = "viewer"
            if brains[brain] == user and role != "owner":
                row.coerced("role", "owner, as brains.owner_user_id says")
                role = "owner"
            seen.add((brain, user))
            yield Membership(where=row.where, realm=brain, email=emails[user], role=role)
        for brain, owner in sorted(brains.items()):
            if owner in emails and (brain, owner) not in seen:
                notes.coerced("brains", "owner_user_id", "became a membership", f"brains {brain}")
                yield Membership(where=f"brains {brain}", realm=brain, email=emails[owner], role="owner")

    def _rows(self, table: str, keys: Sequence[str], notes: Notes) -> Iterator[Row]:
        for values in self._database.rows(table):
            notes.read(table)
            yield Row(table, " ".join(str(values[key]) for key in keys), values, notes)

    def _is_used(self, brain: str) -> bool:
        return any(
            self._database.ask(f"SELECT 1 FROM {table} WHERE brain_id = ? LIMIT 1", (brain,)).fetchone()  # noqa: S608 - our names.
            for table in (*BRAIN_TABLES, "brain_memberships")
            if self._database.has(table)
        )

    def _keys(self, brain: str) -> dict[str, str]:
        """Return which memory has each fact's key: one that is not archived, the one that was changed last."""
        if not self._database.has_column("memories", "key"):
            return {}
        best: dict[str, tuple[bool, float, str]] = {}
        rows = self._database.rows("memories", where="brain_id = ? AND key IS NOT NULL", parameters=(brain,))
        for row in rows:
            if str(row["type"]).strip().lower() == "fact":
                said = (row["archived_at"] is None, _seconds(row), str(row["id"]))
                key = str(row["key"]).strip()
                best[key] = max(best.get(key, said), said)
        return {key: said[2] for key, said in best.items()}


@contextmanager
def open_source(source: str) -> Iterator[MemoryVault]:
    """Read a file, or the SQL that D1 exports. Raises SourceInvalid."""
    with open_sqlite(source, "MemoryVault", TABLES) as database:
        yield MemoryVault(database)


def _seconds(row: Mapping[str, Any]) -> float:
    try:
        return moment_of(row["updated_at"] if row["updated_at"] is not None else row["created_at"])[0].timestamp()
    except ValueError:
        return 0.0


def _person(row: Row, email: str) -> Person:
    given = row.text("password_hash")
    found = password_hash_of(given)
    if given and not found:
        row.coerced("password_hash", "in a form that is not known: they need a new password")
    return Person(
        where=row.where,
        email=email,
        password_hash=found,
        display_name=row.text("display_name", 255),
        create_time=row.time("created_at"),
    )


def _client(row: Row) -> Client:
    rest: dict[str, Any] = {}
    lists = {name: row.sequence(name, rest) for name in ("redirect_uris", "grant_types", "response_types")}
    for name, found in lists.items():
        if f"{name}_text" in rest or not all(isinstance(text, str) for text in found):
            raise Unusable(f"{name} is no JSON array of texts")
    method = row.text("token_endpoint_auth_method").strip() or "none"
    secret_hash = "" if method == "none" else sha256_of(row.text("client_secret_hash"))
    if method != "none" and not secret_hash:
        raise Unusable("client_secret_hash is no SHA-256: the application needs a new secret, so register it anew")
    expires = row.value("client_secret_expires_at")
    return Client(
        where=row.where,
        client_id=row.needed("client_id"),
        name=row.text("client_name", 255),
        redirect_uris=lists["redirect_uris"],
        grant_types=lists["grant_types"],
        response_types=lists["response_types"],
        auth_method=method,
        secret_hash=secret_hash,
        secret_expire_time=row.time("client_secret_expires_at") if expires else None,
        create_time=row.time("created_at"),
    )
