"""The session service, put together."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc as rpc
from skein_kit.embeddings import Embeddings
from skein_kit.months import Months
from skein_kit.quotas import Quotas
from skein_kit.requests import Requests
from skein_kit.service import Host, Service, Servicers
from skein_kit.sql import Queries
from skein_session.servicer import SessionServicer, UpkeepServicer
from skein_session.settings import SessionSettings
from skein_session.store.messages import MessageStore
from skein_session.store.search import SearchStore
from skein_session.store.sessions import SessionStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Open the pool and answer SessionService and UpkeepService."""
    settings = SessionSettings.read(host.environment)
    servicers = Servicers()
    async with host.database("session", servicers) as database:
        requests, quotas = Requests("session"), Quotas("session")
        months = Months(database, Queries.of("skein_session")["ensure_month"])
        index = recall_pb2_grpc.IndexServiceStub(host.channel("recall"))
        servicer = SessionServicer(
            settings=settings,
            sessions=SessionStore(database, requests, quotas),
            messages=MessageStore(database, requests, quotas, months),
            search=SearchStore(database),
            embeddings=Embeddings(index, service="session", at_once=settings.immediate_embeddings),
        )
        servicers.add(rpc.add_SessionServiceServicer_to_server, servicer)
        servicers.add(rpc.add_UpkeepServiceServicer_to_server, UpkeepServicer(database, requests, months))
        yield servicers


SERVICE = Service(name="session", port=50053, calls=("auth", "recall"), start=start)
