"""Errors that end an import. The report counts refusals of single records instead."""

from __future__ import annotations


class ImportFailure(Exception):
    """An import cannot begin or go on. The message names the reason and the remedy."""


class SourceInvalid(ImportFailure):
    """A source cannot be read at all."""


class SourceTooLarge(SourceInvalid):
    """Reading a source would take more memory, disk or time than a sound source of its size takes."""


class QuotaReached(ImportFailure):
    """The tenant's quota is used up. Written records stay."""


class SlugTaken(ImportFailure):
    """A tenant that was not made for a realm has the slug that the realm's tenant would have."""
