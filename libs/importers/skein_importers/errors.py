"""Errors that end an import. The report counts refusals of single records instead."""

from __future__ import annotations


class ImportRefused(Exception):
    """An import cannot begin or go on. The message names the reason and the remedy."""


class SourceInvalid(ImportRefused):
    """A source cannot be read at all."""


class QuotaReached(ImportRefused):
    """The tenant's quota is used up. Written records stay."""


class SlugTaken(ImportRefused):
    """A tenant that was not made for a realm has the slug that the realm's tenant would have."""
