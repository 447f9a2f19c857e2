"""Errors of a migration, whose messages say what an operator can do."""

from __future__ import annotations


class MigrationError(Exception):
    """The schema cannot be migrated."""


class MigrationNotAllowed(MigrationError):
    """The user of the URL may neither create the roles nor act as the owner of the schema."""


class SchemaTooOld(MigrationError):
    """A migration that the database has is not the released one: no migration leads to this version."""

    def __init__(self, migration: str, writer: str, version: str) -> None:
        """Name the first migration that differs, the version that applied it ("" if unknown), and this version."""
        super().__init__(
            f"The data is of {f'a build of Skein {writer}' if writer else 'a build'} from before the release: its"
            f" migration {migration} is another one than that of Skein {version}, and no migration leads here. Start it"
            " with the build that wrote it, run `skein export -o FILE` for each tenant, and `skein import jsonl FILE`"
            " into an empty data folder or database of this version."
        )


class SchemaTooNew(MigrationError):
    """A later version has migrated the database further than this one can serve."""

    def __init__(self, found: int, writer: str, newest: int, version: str) -> None:
        """Name the schema that was found, the version that made it ("" if unknown), and what this version knows."""
        super().__init__(
            f"The data is of a later version: its schema is at {found}, and Skein {version} serves {newest} and"
            f" {newest + 1}. Use {f'Skein {writer}' if writer else 'the version that wrote it'} or a later one. To come"
            " back to this version, run `skein export -o FILE` for each tenant there, and `skein import jsonl FILE`"
            " into an empty data folder or database here."
        )


class DatabaseForeign(MigrationError):
    """The database has schemas that have names of ours and are not ours."""

    def __init__(self, schemas: list[str]) -> None:
        """Name the schemas."""
        super().__init__(
            f"The database has schemas that Skein did not make: {', '.join(schemas)}. Name an empty database in"
            " SKEIN_DATABASE_URL."
        )
