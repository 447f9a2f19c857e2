"""Clients of the cluster that SKEIN_ENDPOINT and SKEIN_API_KEY name, and ids that no other test uses."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from skein_client import Client, sync


@pytest.fixture(scope="session")
async def skein() -> AsyncIterator[Client]:
    async with Client.from_environment(timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def sync_skein() -> Iterator[sync.Client]:
    with sync.Client.from_environment(timeout=60) as client:
        yield client


@pytest.fixture
def session_id() -> str:
    return f"session-{uuid.uuid4()}"
