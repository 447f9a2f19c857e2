"""What answers an RPC is found by the RPC's name: it takes and returns what the contract says, and has one place."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.rpc.servicer_registry import ServicerRegistry

SERVICES = ("auth", "tenancy", "session", "memory", "recall", "gateway")


def handlers(service: str) -> Iterator[tuple[ModuleType, type]]:
    """Each class of a service that answers RPCs, with its module."""
    package = importlib.import_module(f"skein_{service}")
    for found in pkgutil.walk_packages(package.__path__, f"skein_{service}."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__ and value.__name__.endswith("Handlers"):
                yield module, value


def rpcs(service: str) -> dict[str, list[MethodDescriptor]]:
    """The RPCs of a service by name; a public and an internal one may share theirs."""
    found: dict[str, list[MethodDescriptor]] = {}
    for path in ACCESS_RULES:
        name = path.removeprefix("/").replace("/", ".")
        if name.startswith(f"skein.{service}."):
            method = descriptor_pool.Default().FindMethodByName(name)
            found.setdefault(method.name, []).append(method)
    return found


def types_of(module: ModuleType, method: FunctionType) -> tuple[Any, Any]:
    """The declared types of the request and of the answer; those of a stream's messages where it streams."""
    request, *_, answer = method.__annotations__.values()
    _, _, streamed = answer.partition("[")
    return eval(request, vars(module)), eval(streamed.removesuffix("]") or answer, vars(module))  # noqa: S307 - our own.


@pytest.mark.parametrize("service", SERVICES)
def test_each_handler_takes_and_returns_what_its_rpc_does(service: str) -> None:
    methods = rpcs(service)
    wrong, seen = [], set()

    for module, owner in handlers(service):
        for name, method in vars(owner).items():
            if name[:1].isupper() and isinstance(method, FunctionType):
                declared = types_of(module, method)
                types = [
                    (GetMessageClass(each.input_type), GetMessageClass(each.output_type)) for each in methods[name]
                ]
                wrong += [f"{owner.__name__}.{name}"] if declared not in types else []
                seen.add(name)

    assert wrong == []
    assert service == "gateway" or seen == methods.keys()


def test_an_rpc_that_no_feature_answers_or_two_do_is_refused_at_the_start() -> None:
    class Tea:
        def Brew(self) -> None: ...

    registry = ServicerRegistry()

    with pytest.raises(TypeError, match=r"Pour should be a method of one feature; it is one of \[\]"):
        registry.add(lambda servicer, _: servicer.Pour, Tea())
    with pytest.raises(TypeError, match=r"Brew should be a method of one feature; it is one of \['Tea', 'Tea'\]"):
        registry.add(lambda servicer, _: servicer.Brew, Tea(), Tea())
