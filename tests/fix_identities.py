"""Certificates by which the services of a test's clusters know each other, and channels that show one."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from skein_cluster import registry
from skein_cluster.service_certificates import authority
from skein_kit.identity.service_identity import certificate_name

# A process that is every service.
ALL = "all"
_FOLDER = tempfile.TemporaryDirectory(prefix="skein-test-certificates-")


@functools.cache
def certificates() -> Path:
    """Return a folder with a certificate for each service, and one that names all of them."""
    folder = Path(_FOLDER.name)
    authority.issue(folder, {ALL: registry.NAMES} | {name: [name] for name in registry.NAMES})
    return folder


def identity_environment(process: str = ALL) -> dict[str, str]:
    """Return the settings of a process with a certificate."""
    return authority.settings(certificates(), process)


def identity_settings(process: str = ALL) -> dict[str, Any]:
    """Return the same as fields of ProcessSettings."""
    return {name.removeprefix("SKEIN_").lower(): Path(path) for name, path in identity_environment(process).items()}


def without_certificates(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a cluster of several processes makes its own certificates."""
    return {name: value for name, value in environment.items() if not name.startswith("SKEIN_MTLS_")}


def service_channel(
    address: str, service: str, *, caller: str = ALL, options: Sequence[tuple[str, Any]] = ()
) -> aio.Channel:
    """Open a channel to a service's own port as the service `caller`; the caller closes it."""
    own = certificates() / caller
    credentials = grpc.ssl_channel_credentials(
        (own / authority.AUTHORITIES).read_bytes(),
        (own / authority.KEY).read_bytes(),
        (own / authority.CERTIFICATE).read_bytes(),
    )
    name = ("grpc.ssl_target_name_override", certificate_name(service))
    return aio.secure_channel(address, credentials, options=(*options, name))
