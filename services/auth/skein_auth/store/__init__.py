"""Every database call of the auth service, one method for each thing that is done."""

from __future__ import annotations

from skein_auth.store.keys import KeyStore
from skein_auth.store.queries import QUERIES

__all__ = ["QUERIES", "KeyStore"]
