"""`python tests/bench/files_entered.py`: prints how many files of the product a request enters, from socket to SQL.

A file is entered when a frame of it runs between the request's departure and its answer. The cluster is one process and
nothing else calls it; of several equal requests the files that all of them entered are counted, so that background work
is not.

The kit's chain is what every call passes, whatever it does: sockets, interceptors, identity, admission, calls between
services. It is measured: the kit's files that a request enters which memory refuses as invalid, through the gateway,
before its servicer runs. The chain counts as one file; the kit's other files count as themselves.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType

from fix_cluster import Cluster

# The folder of the tests, so that what lies in this one has a name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import click
import grpc
import uvloop
from fix_accounts import new_account
from fix_cluster import running_cluster, test_environment

from skein.auth.v1 import accounts_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2

_ROOT = Path(__file__).resolve().parents[2]
_PRODUCT = (f"{_ROOT}/services/", f"{_ROOT}/libs/")
_GENERATED = f"{_ROOT}/libs/protos/"
_KIT = "libs/kit/"
# On a busy machine a request lasts long enough for background work in most rounds, but not in all of these.
_WARM_UP, _ROUNDS = 3, 30


@click.command()
@click.option("--names", is_flag=True, help="Print the files as well.")
def main(names: bool) -> None:  # noqa: FBT001 - click passes flags by name.
    """Print the number of files that three requests enter."""
    uvloop.run(_print(names=names))


async def _print(*, names: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="skein-files-") as folder:
        async with running_cluster(
            Path(folder), {**test_environment(), "SKEIN_LOG_LEVEL": "error"}, form="one"
        ) as cluster:
            chain = {name for name in await _entered(await _refused_request(cluster)) if name.startswith(_KIT)}
            click.echo(f"The kit's chain: {len(chain)} files")
            if names:
                click.echo(_lines(chain))
            for request, call in (await _requests(cluster)).items():
                files = await _entered(call)
                own = files - chain
                packages = Counter(name.split("/")[1] for name in own)
                click.echo(
                    f"{request}: {len(own) + 1} files with the chain as one"
                    f" ({', '.join(f'{package} {count}' for package, count in sorted(packages.items()))}),"
                    f" {len(files)} with each file of the chain"
                )
                if names:
                    click.echo(_lines(own))


def _lines(names: set[str]) -> str:
    return "".join(f"  {name}\n" for name in sorted(names))


async def _refused_request(cluster: Cluster) -> Callable[[], Awaitable[object]]:
    """Return a request that memory's validation refuses."""
    tenant = await cluster.new_tenant()

    async def create() -> object:
        memory = memory_pb2.Memory(content="Anna drinks tea", importance=7)
        try:
            return await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                raise
            return None

    return create


async def _requests(cluster: Cluster) -> dict[str, Callable[[], Awaitable[object]]]:
    tenant = await cluster.new_tenant()
    account = await new_account(cluster)
    refresh_token = account.refresh_token
    numbers = iter(range(1_000))

    async def recall() -> object:
        return await tenant.gateway.Recall(gateway_pb2.RecallRequest(query=f"what does Anna drink {next(numbers)}"))

    async def create() -> object:
        memory = memory_pb2.Memory(content=f"Anna drinks tea {next(numbers)}")
        return await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

    async def refresh() -> object:
        nonlocal refresh_token
        request = accounts_pb2.RefreshSessionRequest(refresh_token=refresh_token)
        response = await cluster.anonymous.auth.RefreshSession(request)
        refresh_token = response.tokens.refresh_token
        return response

    await create()
    return {"Recall": recall, "CreateMemory": create, "RefreshSession": refresh}


async def _entered(call: Callable[[], Awaitable[object]]) -> set[str]:
    """Return the files that each of several calls entered, relative to the checkout."""
    for _ in range(_WARM_UP):
        await call()
    rounds: list[set[str]] = []
    for _ in range(_ROUNDS):
        # What the call before left to do is done meanwhile.
        await asyncio.sleep(0.3)
        files: set[str] = set()

        def profile(frame: FrameType, event: str, _argument: object, files: set[str] = files) -> None:
            if event == "call":
                files.add(frame.f_code.co_filename)

        sys.setprofile(profile)
        try:
            await call()
        finally:
            sys.setprofile(None)
        rounds.append(files)
    product = (name for name in set.intersection(*rounds) if name.startswith(_PRODUCT))
    return {name.removeprefix(f"{_ROOT}/") for name in product if not name.startswith(_GENERATED)}


if __name__ == "__main__":
    main()
