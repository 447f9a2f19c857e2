"""Errors of a migration, whose messages say what an operator can do."""

from __future__ import annotations


class MigrationError(Exception):
    """The schema cannot be migrated."""


class MigrationNotAllowed(MigrationError):
    """The user of the URL may neither create the roles nor act as the owner of the schema."""
