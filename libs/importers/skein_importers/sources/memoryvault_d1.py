"""`memoryvault-d1`: MemoryVault's D1 database, brain by brain, with its people, their memberships and OAuth clients.

Early schemas have no table `brains` or no column `brain_id`: such a database is one brain. A row without a brain
belongs to the shared one, as in MemoryVault's own migrations.

Data of its own server is ignored: auth sessions and tokens, codes, attempts. So are snapshots and the changelog, which
no call can write; create a new snapshot after the import.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from skein_importers.records import Record, UnreadableRecord
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm, slug_of
from skein_importers.sources.memoryvault import LEGACY_BRAIN, UNREAD, BrainRows, superseded_by
from skein_importers.sources.memoryvault import TABLES as BRAIN_TABLES
from skein_importers.sources.rows import InvalidRow, Row, parse_time
from skein_importers.sources.sqlite import Database, Table, open_sqlite

NAME = "memoryvault-d1"
LEGACY_USER = "legacy-token-user"
_TIMES = ("created_at", "updated_at")
_table = partial(Table, unread=UNREAD)
TABLES = {
    "users": Table(
        unread=UNREAD, needs=("id", "email", "password_hash"), may_have=("display_name", *_TIMES), optional=True
    ),
    "brains": _table(needs=("id", "name"), may_have=("slug", "owner_user_id", *_TIMES), optional=True),
    "brain_memberships": Table(
        unread=UNREAD, needs=("brain_id", "user_id"), may_have=("role", "created_at"), optional=True
    ),
    "oauth_clients": Table(
        unread=UNREAD,
        needs=("client_id", "redirect_uris"),
        may_have=(
            *("id", "client_name", "grant_types", "response_types", "token_endpoint_auth_method"),
            *("client_secret_hash", "client_secret_expires_at", *_TIMES),
        ),
        optional=True,
    ),
    "memories": Table(
        unread=UNREAD,
        needs=("id", "content", "created_at"),
        may_have=(
            *("brain_id", "type", "title", "key", "tags", "source", "confidence", "importance", "archived_at"),
            "updated_at",
        ),
    ),
    "memory_links": Table(
        unread=UNREAD,
        needs=("id", "from_id", "to_id"),
        may_have=("brain_id", "relation_type", "label", "created_at"),
        optional=True,
    ),
    "brain_source_trust": Table(
        unread=UNREAD, needs=("source_key", "trust"), may_have=("id", "brain_id", "notes", *_TIMES), optional=True
    ),
    "memory_entity_aliases": Table(
        unread=UNREAD,
        needs=("canonical_memory_id", "alias_memory_id"),
        may_have=("id", "brain_id", "note", "confidence", *_TIMES),
        optional=True,
    ),
    "memory_conflict_resolutions": Table(
        unread=UNREAD,
        needs=("a_id", "b_id", "status"),
        may_have=("id", "brain_id", "canonical_id", "note", *_TIMES),
        optional=True,
    ),
    "brain_policies": _table(needs=("policy_json",), may_have=("brain_id", *_TIMES), optional=True),
    "memory_watches": Table(
        unread=UNREAD,
        needs=("id", "name", "event_types"),
        may_have=("brain_id", "query", "webhook_url", "secret", "is_active", *_TIMES),
        optional=True,
    ),
    "memory_changelog": Table(needs=(), may_have=("brain_id",), optional=True),
    "brain_snapshots": Table(needs=(), may_have=("brain_id",), optional=True),
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
_KNOWN_COLUMN = (
    "EXISTS (SELECT 1 FROM memories AS other WHERE other.id = {table}.{column} AND {is_same_brain}) AS {column}_known"
)
_IGNORED_OF_BRAIN = {
    "memory_changelog": "what happened there; the history here begins with the import",
    "brain_snapshots": "copies in a form of its own; make a snapshot when the import is done",
}
_IGNORED = {
    "auth_sessions": "login sessions and their tokens; people log in again",
    "oauth_authorization_codes": "codes of ten minutes",
    "rate_limits": "attempts to sign in there",
}
_ROLES = frozenset({"owner", "admin", "member", "viewer"})
_ITERATIONS = 100_000
_SHA256 = 32
_ALGORITHMS = frozenset({"pbkdf2", "pbkdf2_sha256", "pbkdf2-sha256"})
_PARTS = 4
_HEX = re.compile(r"([0-9a-fA-F]{2})+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


class MemoryVault:
    """An open database of MemoryVault."""

    name = NAME

    def __init__(self, database: Database) -> None:
        """Read `database`."""
        self._database = database
        # The brains that memories name; None before they are read.
        self._memory_brains: frozenset[str] | None = None

    def tenants(self) -> list[Realm]:
        """Return the brains, also brains that only memories name; a database without `brains` has at least one."""
        realms = {
            str(row["id"]): Realm(
                key=str(row["id"]),
                name=str(row["name"] or row["id"]),
                slug=slug_of(
                    str(row["name"] or ""),
                    str(row["id"]),
                    LEGACY_BRAIN if row["id"] == LEGACY_BRAIN else str(row["slug"] or ""),
                ),
                source_slug=str(row["slug"] or ""),
                times={name: row[name] for name in _TIMES},
            )
            for row in self._database.rows("brains")
        }
        for key in self._brains_of_memories():
            realms.setdefault(key, _brain_without_row(key))
        if not realms:
            return [_brain_without_row(LEGACY_BRAIN)]
        if len(realms) > 1 and LEGACY_BRAIN in realms and not self._is_used(LEGACY_BRAIN):
            # Every database has this brain; an unused one belongs to no tenant.
            del realms[LEGACY_BRAIN]
        return [realms[key] for key in sorted(realms)]

    def records(self, realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read a brain's memories, links, trust, aliases, conflicts, policy and watches."""
        brain = BrainRows(notes, self._keys(realm.key))
        for table in BRAIN_TABLES:
            if not self._database.has(table):
                continue
            rows = self._database.rows(
                table,
                where=self._is_of(table, realm.key),
                parameters=(realm.key,),
                extra_columns=self._known_columns(table),
            )
            yield from brain.records(table, rows)
        for table, reason in _IGNORED_OF_BRAIN.items():
            if self._database.has(table):
                statement = f"SELECT count(*) FROM {table} WHERE {self._is_of(table, realm.key)}"  # noqa: S608 - our names.
                if count := self._database.query(statement, (realm.key,)).fetchone()[0]:
                    notes.ignored[table, reason] += count

    def accounts(self, notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Read accounts, OAuth clients and memberships of brains."""
        emails: dict[str, str] = {}
        for row in self._rows("users", ("id",), notes):
            if row.key == LEGACY_USER:
                notes.count_ignored(
                    "users", "the shared bearer token's user; set the token with AuthService.SetLegacyToken"
                )
                continue
            emails[row.key] = row.text("email").strip().lower()
            yield _person(row, emails[row.key])
            row.count_unread(UNREAD)
        for row in self._rows("oauth_clients", ("client_id",), notes):
            try:
                yield _client(row)
                row.count_unread(UNREAD)
            except (InvalidRow, ValueError) as error:
                yield UnreadableRecord(where=row.where, reason=str(error), table=row.table)
        yield from self._memberships(notes, emails)
        for table, reason in _IGNORED.items():
            if (
                self._database.has(table)
                and (count := self._database.query(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - our names.
            ):
                notes.ignored[table, reason] += count

    def _memberships(self, notes: Notes, emails: Mapping[str, str]) -> Iterator[Membership | UnreadableRecord]:
        brains: dict[str, Any] = {realm.key: None for realm in self.tenants()}
        brains |= {str(row["id"]): row["owner_user_id"] for row in self._database.rows("brains")}
        members: set[tuple[str, str]] = set()
        for row in self._rows("brain_memberships", ("brain_id", "user_id"), notes):
            brain, user = row.text("brain_id"), row.text("user_id")
            if user == LEGACY_USER:
                notes.count_ignored("brain_memberships", "of the shared bearer token")
                continue
            if brain not in brains or user not in emails:
                reason = f"{'brain_id' if brain not in brains else 'user_id'} names no existing row"
                yield UnreadableRecord(where=row.where, reason=reason, table=row.table)
                continue
            role = row.text("role").strip().lower() or "member"
            if role not in _ROLES:
                row.count_converted("role", "unknown role: viewer, the lowest")
                role = "viewer"
            if brains[brain] == user and role != "owner":
                row.count_converted("role", "owner, as brains.owner_user_id says")
                role = "owner"
            members.add((brain, user))
            row.count_unread(UNREAD)
            yield Membership(where=row.where, realm=brain, email=emails[user], role=role)
        for brain, owner in sorted(brains.items()):
            if owner in emails and (brain, owner) not in members:
                notes.count_converted("brains", "owner_user_id", "became a membership", f"brains {brain}")
                yield Membership(where=f"brains {brain}", realm=brain, email=emails[owner], role="owner")

    def _rows(self, table: str, keys: Sequence[str], notes: Notes) -> Iterator[Row]:
        for values in self._database.rows(table):
            notes.read(table)
            yield Row(table, " ".join(str(values[key]) for key in keys), values, notes)

    def _is_used(self, brain: str) -> bool:
        return any(
            self._database.query(
                f"SELECT 1 FROM {table} WHERE {self._is_of(table, brain)} LIMIT 1",  # noqa: S608 - our names.
                (brain,),
            ).fetchone()
            for table in (*BRAIN_TABLES, "brain_memberships")
            if self._database.has(table)
        )

    def _brains_of_memories(self) -> frozenset[str]:
        if self._memory_brains is None:
            has_brains = self._database.has_column("memories", "brain_id")
            brain = f"COALESCE(NULLIF(brain_id, ''), '{LEGACY_BRAIN}')" if has_brains else f"'{LEGACY_BRAIN}'"
            brains = self._database.query(f"SELECT DISTINCT {brain} FROM memories")  # noqa: S608 - our names.
            self._memory_brains = frozenset(str(key) for (key,) in brains)
        return self._memory_brains

    def _is_of(self, table: str, brain: str) -> str:
        """Return SQL that is true for a brain's rows of a table; its one parameter is the brain."""
        if self._is_one_brain():
            return "? IS NOT NULL"
        if not self._database.has_column(table, "brain_id"):
            return f"? = '{LEGACY_BRAIN}'"
        # This form uses the index on brain_id for all brains except the shared one.
        return "(brain_id = ? OR COALESCE(brain_id, '') = '')" if brain == LEGACY_BRAIN else "brain_id = ?"

    def _known_columns(self, table: str) -> str:
        """Return SQL columns that say whether the memories named by a row are in its brain."""
        is_same_brain = "1"
        if not self._is_one_brain():
            has_brain = [self._database.has_column(name, "brain_id") for name in (table, "memories")]
            sides = [
                f"COALESCE(NULLIF({name}.brain_id, ''), '{LEGACY_BRAIN}')" if has else f"'{LEGACY_BRAIN}'"
                for name, has in zip((table, "other"), has_brain, strict=True)
            ]
            is_same_brain = " = ".join(sides)
        return ", ".join(
            _KNOWN_COLUMN.format(table=table, column=column, is_same_brain=is_same_brain)
            for column in _ENDS.get(table, ())
        )

    def _is_one_brain(self) -> bool:
        """Say whether the whole database is one brain."""
        return not self._database.has("brains") and len(self._brains_of_memories()) <= 1

    def _keys(self, brain: str) -> dict[str, str]:
        """Return the memory of each fact key in lower case: of those not archived or superseded, the one changed last.

        Where all of them are, it is the one changed last.
        """
        if not self._database.has_column("memories", "key"):
            return {}
        superseded = self._superseded(brain)
        best: dict[str, tuple[bool, bool, float, str]] = {}
        where = f"{self._is_of('memories', brain)} AND key IS NOT NULL"
        rows = self._database.rows("memories", where=where, parameters=(brain,))
        for row in rows:
            if str(row["type"]).strip().lower() == "fact":
                identity = str(row["id"])
                rank = (row["archived_at"] is None, identity not in superseded, _seconds(row), identity)
                key = str(row["key"]).strip().lower()
                best[key] = max(best.get(key, rank), rank)
        return {key: rank[-1] for key, rank in best.items()}

    def _superseded(self, brain: str) -> frozenset[str]:
        """Return the memories that another one of the brain supersedes."""
        of_brain = {
            table: self._database.rows(table, where=self._is_of(table, brain), parameters=(brain,))
            for table in ("memory_links", "memory_conflict_resolutions")
            if self._database.has(table)
        }
        return superseded_by(of_brain.get("memory_links", ()), of_brain.get("memory_conflict_resolutions", ()))


def _brain_without_row(key: str) -> Realm:
    return Realm(key=key, name=key, slug=LEGACY_BRAIN if key == LEGACY_BRAIN else slug_of(key, key))


@contextmanager
def open_source(source: str) -> Iterator[MemoryVault]:
    """Open an SQLite file, or the SQL of a D1 export. Raises SourceInvalid."""
    with open_sqlite(source, "MemoryVault", TABLES) as database:
        yield MemoryVault(database)


def _seconds(row: Mapping[str, Any]) -> float:
    try:
        return parse_time(row["updated_at"] if row["updated_at"] is not None else row["created_at"])[0].timestamp()
    except ValueError:
        return 0.0


def _person(row: Row, email: str) -> Person:
    stored_hash = row.text("password_hash")
    password_hash = password_hash_of(stored_hash)
    if stored_hash and not password_hash:
        row.count_converted("password_hash", "unknown hash format: the person needs a new password")
    return Person(
        where=row.where,
        email=email,
        password_hash=password_hash,
        display_name=row.text("display_name", 255),
        create_time=row.time("created_at"),
        update_time=row.time("updated_at"),
    )


def _client(row: Row) -> OAuthClient:
    extra: dict[str, Any] = {}
    lists = {name: row.sequence(name, extra) for name in ("redirect_uris", "grant_types", "response_types")}
    for name, values in lists.items():
        if f"{name}_text" in extra or not all(isinstance(text, str) for text in values):
            raise InvalidRow(f"{name} is no JSON array of texts")
    method = row.text("token_endpoint_auth_method").strip() or "none"
    secret_hash = "" if method == "none" else sha256_of(row.text("client_secret_hash"))
    if method != "none" and not secret_hash:
        raise InvalidRow("client_secret_hash is no SHA-256: register the application again to get a new secret")
    expire_time = row.value("client_secret_expires_at")
    return OAuthClient(
        where=row.where,
        client_id=row.required_text("client_id"),
        name=row.text("client_name", 255),
        redirect_uris=lists["redirect_uris"],
        grant_types=lists["grant_types"],
        response_types=lists["response_types"],
        auth_method=method,
        secret_hash=secret_hash,
        secret_expire_time=row.time("client_secret_expires_at") if expire_time else None,
        create_time=row.time("created_at"),
    )


def password_hash_of(stored: str) -> str:
    """Return a password hash in CreateAccount's form; "" for an unknown form.

    PBKDF2 with SHA-256 is written as `pbkdf2_sha256$ITERATIONS$SALT$HASH`, also as `pbkdf2$...`, `pbkdf2-sha256$...`,
    and with colons. Salt and hash are base64, base64url or hexadecimal. `SALT:HASH` has MemoryVault's 100,000
    iterations. argon2id is read in its usual form.
    """
    text = stored.strip()
    if text.startswith("$argon2id$"):
        return text
    parts = text.split("$") if "$" in text else text.split(":")
    if len(parts) == _PARTS and parts[0].lower() in _ALGORITHMS and parts[1].isascii() and parts[1].isdigit():
        iterations, salt, digest = int(parts[1]), parts[2], parts[3]
    elif len(parts) == 2 and "$" not in text:  # noqa: PLR2004 - salt and hash.
        iterations, salt, digest = _ITERATIONS, parts[0], parts[1]
    else:
        return ""
    key = _bytes(digest, _SHA256)
    # The salt has the encoding of the hash.
    salt_bytes = _bytes(salt, 0, is_hex=len(digest) == 2 * _SHA256)
    if key is None or not salt_bytes:
        return ""
    return f"pbkdf2_sha256${iterations}${base64.b64encode(salt_bytes).decode()}${base64.b64encode(key).decode()}"


def sha256_of(stored: str) -> str:
    """Return a SHA-256 in hexadecimal, from hexadecimal, base64 or base64url; "" for anything else."""
    decoded = _bytes(stored.strip().removeprefix("sha256:"), _SHA256)
    return "" if decoded is None else decoded.hex()


def _bytes(text: str, length: int, *, is_hex: bool | None = None) -> bytes | None:
    """Decode bytes, of `length` if set; None for anything else."""
    if (is_hex if is_hex is not None else len(text) == 2 * length) and _HEX.fullmatch(text):
        return bytes.fromhex(text)
    if is_hex or not _BASE64.fullmatch(text):
        return None
    standard_base64 = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        decoded = base64.b64decode(standard_base64 + "=" * (-len(standard_base64) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return decoded if len(decoded) == length or not length else None
