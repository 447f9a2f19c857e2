"""Checks of a process's settings, one sentence per problem; opens only files."""

from __future__ import annotations

import re
import ssl
from functools import partial
from typing import TYPE_CHECKING

from skein_auth.accounts import passwords
from skein_auth.accounts.self_service import sign_up_rule
from skein_auth.assertions.identity_assertions import parse_assertion_issuers
from skein_auth.federation.providers import Providers, ProviderSettings
from skein_auth.settings import AuthSettings, SystemKeys, check_settings
from skein_cluster import registry
from skein_cluster.config.catalog import FILE, read_settings, settings_classes
from skein_cluster.config.unknown_settings import unknown_settings
from skein_cluster.processes.ports import check_distinct
from skein_gateway.http_api.cors import origins_of
from skein_gateway.identity.trusted_proxies import NO_TRUSTED_PROXIES, TrustedProxies
from skein_gateway.mcp.http_handler import is_loopback
from skein_gateway.settings import GatewaySettings
from skein_kit.content_guard.endpoint import DetectorEndpoint
from skein_kit.outbound.fetch import OutboundSettings, SafeHttpClient
from skein_kit.outbound.mail import Mailer, MailSettings
from skein_kit.settings import LAST_PORT, ProcessSettings, SettingInvalid
from skein_kit.tls.mutual_tls import AUTHORITY, CERTIFICATE, KEY, MutualTlsFiles
from skein_kit.tls.server_tls import ServerTls
from skein_memory.settings import SecretSettings
from skein_memory.vault.encryption import MasterKeys
from skein_pc2.settings import Pc2Settings, check_roles, is_secure
from skein_pc2.transport.curve import CurveCertificates
from skein_recall.providers.api_keys import ApiKeys
from skein_session.settings import SessionSettings
from skein_session.summaries.chat_model import ChatModel
from skein_worker.extraction.language_model import FactModels
from skein_worker.settings import WorkerSettings
from skein_worker.settings import check_system_key as check_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    Check = Callable[[], object]

_ADDRESS = re.compile(r"(?:[^\s/:@]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
# gRPC targets: a name of several replicas, or all of their addresses.
_SCHEME = re.compile(r"https://|dns:///|ipv[46]:(?=.*:)")


def find_problems(services: Collection[str], environment: Mapping[str, str]) -> list[str]:
    """Return the problems that prevent these services' start in one process, or change its effect."""
    problems = dict.fromkeys(unknown_settings(environment))
    settings = read_settings(services, environment)
    problems |= dict.fromkeys(reading.problem for reading in settings if reading.problem)
    duplicates = sorted(
        reading.name for reading in settings if {reading.name, f"{reading.name}{FILE}"} <= environment.keys()
    )
    problems |= dict.fromkeys(f"{name} and {name}{FILE} are both set; only {name} counts." for name in duplicates)
    for check in _checks(services, environment):
        try:
            check()
        except SettingInvalid as invalid:
            problems[str(invalid)] = None
    return list(problems)


def find_notes(services: Collection[str], environment: Mapping[str, str]) -> list[str]:
    """Return notes about settings that do not prevent a start."""
    if "gateway" not in services:
        return []
    host = ProcessSettings.read(environment).host
    if is_loopback(host) or GatewaySettings.read(environment).trusted_proxies:
        return []
    return [f"The gateway listens on {host}, and {NO_TRUSTED_PROXIES}"]


def _checks(services: Collection[str], environment: Mapping[str, str]) -> Iterator[Check]:
    """Yield checks that raise SettingInvalid as the services' start would."""
    for kind in settings_classes(services):
        yield partial(kind.read, environment)
    yield partial(_check_process, services, environment)
    yield lambda: MutualTlsFiles.from_settings(ProcessSettings.read(environment))
    yield partial(require_certificates, services, environment)
    yield partial(_check_addresses, services, environment)
    yield partial(_check_ports, services, environment)
    for name in services:
        for check in _OF_SERVICE.get(name, ()):
            yield partial(check, environment)


def require_certificates(services: Collection[str], environment: Mapping[str, str]) -> None:
    """Raise SettingInvalid for services that call others in other processes and have no certificate to show."""
    if ProcessSettings.read(environment).mtls_certificate is not None:
        return
    called = {name for service in registry.load(services) for name in service.depends_on}
    # Nothing that the gateway needs of pc2 and of the worker is refused to it.
    remote = [name for name in registry.NAMES if name in called - {*services, "gateway", "pc2", "worker"}]
    if remote:
        raise SettingInvalid(
            f"{CERTIFICATE}, {KEY} and {AUTHORITY} are missing: {', '.join(remote)} in other processes would refuse "
            "the calls. `skein mtls certificates FOLDER` makes them."
        )


def _check_process(services: Collection[str], environment: Mapping[str, str]) -> None:
    settings = ProcessSettings.read(environment)
    database_services = [name for name in registry.NAMES if name in services and name in registry.WITH_DATABASE]
    if database_services and not settings.database_url:
        raise SettingInvalid(
            f"SKEIN_DATABASE_URL is needed by {', '.join(database_services)}: the Postgres to use, as postgresql://…"
        )
    if settings.ca_file is not None:
        try:
            ssl.create_default_context(cafile=settings.ca_file)
        except OSError as error:
            reason = (
                "contains no certificate" if isinstance(error, ssl.SSLError) else f"cannot be read: {error.strerror}"
            )
            raise SettingInvalid(f"SKEIN_CA_FILE names a file that {reason}.") from None


def _check_addresses(services: Collection[str], environment: Mapping[str, str]) -> None:
    for name in registry.PORTS:
        variable = f"SKEIN_{name.upper()}_ADDRESS"
        text = environment.get(variable, "")
        if text and not _is_target(text):
            raise SettingInvalid(f'{variable} should be "host:port", or "https://host:port" for TLS.')
        if text and name in services:
            raise SettingInvalid(f"{variable} is not used: {name} runs in this process.")


def _is_target(text: str) -> bool:
    scheme = _SCHEME.match(text)
    address_text = text if scheme is None else text[scheme.end() :]
    parts = address_text.split(",") if scheme is not None and scheme[0].startswith("ip") else [address_text]
    matches = [_ADDRESS.fullmatch(part) for part in parts]
    return all(match is not None and 0 < int(match[1]) <= LAST_PORT for match in matches)


def _check_ports(services: Collection[str], environment: Mapping[str, str]) -> None:
    ports = {"SKEIN_ADMIN_PORT": ProcessSettings.read(environment).admin_port}
    ports |= {f"SKEIN_{name.upper()}_PORT": registry.port_of(name, environment) for name in services}
    if "gateway" in services:
        ports["SKEIN_HTTP_PORT"] = GatewaySettings.read(environment).http_port
    if "pc2" in services:
        ports |= registry.pc2_ports(environment)
    check_distinct(ports)


def _check_system_keys(environment: Mapping[str, str]) -> None:
    current = ProcessSettings.read(environment).system_key
    SystemKeys.of(current, AuthSettings.read(environment).system_key_previous)


def _check_providers(environment: Mapping[str, str]) -> None:
    outbound_allow = OutboundSettings.read(environment).outbound_allow
    Providers.of(ProviderSettings.read(environment), outbound_allow)
    parse_assertion_issuers(AuthSettings.read(environment).assertion_issuers, outbound_allow)


def _check_master_keys(environment: Mapping[str, str]) -> None:
    settings = SecretSettings.read(environment)
    MasterKeys.of(settings.master_key, settings.master_key_previous)


def _check_tls(environment: Mapping[str, str]) -> None:
    settings = GatewaySettings.read(environment)
    ServerTls.read(settings.tls_certificate, settings.tls_key)


def _check_certificates(environment: Mapping[str, str]) -> None:
    if is_secure(environment):
        CurveCertificates.read(Pc2Settings.read(environment).certificates)


def _check_mail(environment: Mapping[str, str]) -> None:
    Mailer.from_settings(MailSettings.read(environment))


def _check_guard(environment: Mapping[str, str]) -> None:
    DetectorEndpoint.of(environment, service="memory")


def _check_outbound(environment: Mapping[str, str]) -> None:
    SafeHttpClient.from_settings(OutboundSettings.read(environment))


_OF_SERVICE: Mapping[str, tuple[Callable[[Mapping[str, str]], object], ...]] = {
    "auth": (
        _check_system_keys,
        lambda environment: check_settings(AuthSettings.read(environment)),
        lambda environment: passwords.check_password_settings(AuthSettings.read(environment)),
        lambda environment: sign_up_rule(AuthSettings.read(environment).sign_up),
        _check_providers,
        _check_mail,
        _check_outbound,
    ),
    "tenancy": (_check_mail,),
    "session": (lambda environment: ChatModel.of(SessionSettings.read(environment)),),
    "memory": (_check_master_keys, _check_outbound, _check_guard),
    "recall": (ApiKeys.read, _check_outbound),
    "worker": (
        lambda environment: check_worker(ProcessSettings.read(environment)),
        lambda environment: FactModels.of(WorkerSettings.read(environment), OutboundSettings.read(environment)),
    ),
    "gateway": (
        _check_tls,
        lambda environment: TrustedProxies.of(GatewaySettings.read(environment).trusted_proxies),
        lambda environment: origins_of(GatewaySettings.read(environment).cors_origins),
    ),
    "pc2": (_check_certificates, check_roles),
}
