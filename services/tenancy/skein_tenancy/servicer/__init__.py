"""The RPCs of the tenancy service, in groups."""

from __future__ import annotations

from skein.tenancy.v1 import tenancy_pb2_grpc as rpc
from skein_tenancy.servicer.agents import AgentRpcs
from skein_tenancy.servicer.directory import DirectoryRpcs

__all__ = ["TenancyServicer", "UpkeepServicer"]


class TenancyServicer(DirectoryRpcs, AgentRpcs, rpc.TenancyServiceServicer):
    """TenancyService: who exists, who may act, and how."""


class UpkeepServicer(rpc.UpkeepServiceServicer):
    """UpkeepService: what the other services ask."""
