from __future__ import annotations

import importlib
import inspect
import pkgutil

import grpc
from fix_catalogue import over
from google.rpc import error_details_pb2

from skein.errors.v1 import errors_pb2
from skein_kit import errors

PACKAGES = [
    "skein_kit",
    "skein_auth",
    "skein_tenancy",
    "skein_session",
    "skein_memory",
    "skein_recall",
    "skein_gateway",
]


def every_refusal() -> list[type[errors.RpcError]]:
    results: set[type[errors.RpcError]] = set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in (info.name for info in pkgutil.walk_packages(module.__path__, f"{package}.")):
            if not name.endswith("errors"):
                continue
            for _, value in inspect.getmembers(importlib.import_module(name), inspect.isclass):
                if issubclass(value, errors.RpcError) and value.reason:
                    results.add(value)
    return sorted(results, key=lambda refusal: refusal.__qualname__)


@over("refusal", every_refusal(), name=lambda refusal: refusal.__name__)
def test_every_reason_is_documented_in_the_contract(refusal: type[errors.RpcError]) -> None:
    assert f"ERROR_REASON_{refusal.reason}" in dict(errors_pb2.ErrorReason.items())
    assert inspect.getdoc(refusal)
    assert refusal.code is not grpc.StatusCode.UNKNOWN


def test_a_refusal_carries_reason_facts_and_violations() -> None:
    status = errors.FieldInvalid(violations=[("memory.title", "is too long")], limit=5).status()

    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(bad)
    assert (info.reason, info.domain, dict(info.metadata)) == ("INVALID_FIELD", "skein", {"limit": "5"})
    assert [(v.field, v.description) for v in bad.field_violations] == [("memory.title", "is too long")]


def test_details_stay_small_enough_for_grpc_to_carry() -> None:
    violations = [(f"field_{number}" * 50, "x" * 5000) for number in range(1000)]

    status = errors.FieldInvalid(violations=violations, fact="y" * 100_000).status()

    assert status.ByteSize() < errors.MAX_DETAIL_BYTES + 1024
    assert errors.status_reason(status) == "INVALID_FIELD"


def test_an_unavailable_database_says_when_to_retry() -> None:
    status = errors.DatabaseUnavailable().status()

    retry = error_details_pb2.RetryInfo()
    assert status.details[1].Unpack(retry)
    assert retry.retry_delay.ToMilliseconds() == 500
