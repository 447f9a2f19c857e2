"""Certificates of the processes of one machine, made at the start and renewed while they run."""

from __future__ import annotations

import asyncio
import functools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein_cluster.service_certificates import authority
from skein_kit.background import background_tasks
from skein_kit.tls.mutual_tls import AUTHORITY, CERTIFICATE, KEY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping
    from pathlib import Path

    Settings = Callable[[str], dict[str, str]]

FOLDER = "mtls"
_RENEW_SECONDS = 24 * 3600.0


@asynccontextmanager
async def renewed_certificates(
    data_dir: Path, processes: Mapping[str, Collection[str]], environment: Mapping[str, str]
) -> AsyncIterator[Settings]:
    """Yield the settings of each process's certificate, and renew certificates each day while the block runs.

    `processes` has the services of each process. Where the environment names certificates, those are used.
    """
    if any(environment.get(name) for name in (CERTIFICATE, KEY, AUTHORITY)):
        yield lambda _process: {}
        return
    folder = data_dir / FOLDER
    authority.issue(folder, processes)
    async with background_tasks(service_certificates=functools.partial(_renew, folder, processes)):
        yield functools.partial(authority.settings, folder)


async def _renew(folder: Path, processes: Mapping[str, Collection[str]]) -> None:
    while True:
        await asyncio.sleep(_RENEW_SECONDS)
        await asyncio.to_thread(authority.issue, folder, processes)
