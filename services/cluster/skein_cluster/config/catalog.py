"""Every setting of the cluster, and which service reads it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from skein_auth.federation.providers import ProviderSettings
from skein_auth.settings import AuthSettings
from skein_cluster import registry
from skein_cluster.api.client import OperatorSettings
from skein_gateway.settings import GatewaySettings
from skein_kit.backup_folder import BackupSettings
from skein_kit.canary import CanarySettings
from skein_kit.content_guard.endpoint import GuardSettings
from skein_kit.outbound.fetch import OutboundSettings
from skein_kit.outbound.mail import MailSettings
from skein_kit.settings import ProcessSettings, SettingInvalid, Settings, SettingValue, default_data_dir, read_variable
from skein_memory.settings import MemorySettings, SecretSettings
from skein_pc2.settings import Pc2Identity, Pc2Security, Pc2Settings, default_roles, setting_of
from skein_recall.settings import EmbeddingsSettings, RecallSettings
from skein_session.settings import SessionSettings
from skein_tenancy.settings import TenancySettings
from skein_worker.settings import WorkerSettings

# Services that read each dataclass.
PROCESS = "every process"
COMMAND = "command"
SETTINGS_READERS: Mapping[type[Settings], tuple[str, ...]] = {
    ProcessSettings: (PROCESS,),
    AuthSettings: ("auth",),
    ProviderSettings: ("auth",),
    TenancySettings: ("tenancy",),
    MailSettings: ("auth", "tenancy"),
    OutboundSettings: ("auth", "memory", "recall"),
    GuardSettings: ("memory", "session"),
    SessionSettings: ("session",),
    MemorySettings: ("memory",),
    SecretSettings: ("memory",),
    RecallSettings: ("recall",),
    EmbeddingsSettings: ("recall",),
    WorkerSettings: ("worker",),
    CanarySettings: ("tenancy", "worker"),
    GatewaySettings: ("gateway",),
    Pc2Settings: ("pc2",),
    Pc2Security: ("pc2",),
    Pc2Identity: ("pc2",),
    OperatorSettings: (COMMAND,),
    BackupSettings: ("worker", COMMAND),
}
# Settings without a dataclass, with their meaning; "<…>" stands for any name of a kind.
WITHOUT_DATACLASS: Mapping[str, str] = {
    "SKEIN_<SERVICE>_PORT": "Port that a service listens on; 0: a free one.",
    "SKEIN_<SERVICE>_ADDRESS": (
        '"host:port" of a service that runs in another process, or a gRPC target that names its replicas: '
        "`dns:///memory:50054`, `ipv4:10.0.0.1:50054,10.0.0.2:50054`."
    ),
    "SKEIN_<SERVICE>_DATABASE_PASSWORD": (
        "Password of a service's role: `skein migrate` sets it, and the service then logs in as that role instead of "
        "as the user of SKEIN_DATABASE_URL."
    ),
    "SKEIN_PC2_PORT_<PORT>": "Port number for one port of the assistants' protocol.",
    "SKEIN_PC2_API_KEY_<PORT>": "API key of one port of the assistants' protocol.",
    "SKEIN_PC2_5598": (
        "`events` (the default): port 5598 publishes events and answers the Jarvis memory agent's actions (with CURVE "
        "it publishes only). `jarvis`: it answers only."
    ),
    "SKEIN_PC2_6583": (
        "`pub` (the default): port 6583 publishes the session agent's heartbeat and answers with its health (with "
        "CURVE it publishes only). `rep`: it answers only."
    ),
    "SKEIN_EMBEDDINGS_API_KEY_<MODEL>": "Key of one model's endpoint: `…_TEXT_3_SMALL` for `text-3-small`.",
    "SKEIN_DATA_DIR": "Data folder of `skein up`; `~/.local/share/skein` by default.",
    "SKEIN_ENDPOINT, SKEIN_API_KEY, SKEIN_TENANT_ID": "Endpoint, credential and tenant of the command and the client.",
    "SKEIN_SPACE_ID": "Space in which the calls of the command and the client act, by its id.",
    "SKEIN_HTTP_ENDPOINT": "HTTP address of the cluster for `skein hooks`; without it they call SKEIN_ENDPOINT.",
    "SKEIN_PYTHON": "The Python that `make` uses; by default the newest with an optimized build.",
    "SKEIN_ENVIRONMENT": "Name of the environment in the traces of docker-compose.yml.",
    "SKEIN_SUBNET_PREFIX": (
        "The first three numbers of docker-compose.yml's /24 network; 172.30.57 by default. A second stack on one "
        "machine needs another one, and pc2's allow-list follows."
    ),
}
DATA_DIR = "SKEIN_DATA_DIR"
PC2_KEY = "SKEIN_PC2_API_KEY"
MODEL_KEY = "SKEIN_EMBEDDINGS_API_KEY"
# Settings of the command and the client, which services do not read.
CLIENT_SETTINGS = (
    "SKEIN_ENDPOINT",
    "SKEIN_HTTP_ENDPOINT",
    "SKEIN_API_KEY",
    "SKEIN_API_KEY_FILE",
    "SKEIN_TENANT_ID",
    "SKEIN_SPACE_ID",
)
# Settings of the repository's scripts; those of its tests have a prefix of their own.
TOOL_SETTINGS = ("SKEIN_PYTHON", "SKEIN_ENVIRONMENT", "SKEIN_SUBNET_PREFIX")
TEST_PREFIX = "SKEIN_TEST_"
FILE = "_FILE"


def setting_names() -> frozenset[str]:
    """Return all known variables; keys of models have any name (see MODEL_KEY)."""
    return frozenset(
        (
            *_of_dataclasses(),
            *(f"SKEIN_{name.upper()}_{suffix}" for name in registry.PORTS for suffix in ("PORT", "ADDRESS")),
            *(f"{password_setting(name)}{suffix}" for name in registry.WITH_DATABASE for suffix in ("", FILE)),
            *(setting_of(number) for number in registry.PC2_PORTS),
            *(f"{PC2_KEY}_{number}{suffix}" for number in registry.PC2_PORTS for suffix in ("", FILE)),
            *(DATA_DIR, *default_roles(), *CLIENT_SETTINGS, *TOOL_SETTINGS),
        )
    )


def settings_classes(services: Collection[str]) -> list[type[Settings]]:
    """Return the dataclasses that a process of these services reads."""
    return [kind for kind, readers in SETTINGS_READERS.items() if PROCESS in readers or {*readers} & {*services}]


def read_settings(services: Collection[str], environment: Mapping[str, str]) -> list[SettingValue]:
    """Return every setting of a process of these services, each once."""
    readings: dict[str, SettingValue] = {}
    for kind in settings_classes(services):
        for reading in kind.read_all(environment):
            readings.setdefault(reading.name, reading)
    for reading in _without_dataclass(services, environment):
        readings.setdefault(reading.name, reading)
    return list(readings.values())


def password_setting(service: str) -> str:
    """Return the variable of the password that `skein migrate` gives to a service's role."""
    return f"SKEIN_{service.upper()}_DATABASE_PASSWORD"


def _of_dataclasses() -> Iterator[str]:
    for kind in SETTINGS_READERS:
        for reading in kind.read_all({}):
            yield reading.name
            if isinstance(reading.default, str):
                yield f"{reading.name}{FILE}"


def _without_dataclass(services: Collection[str], environment: Mapping[str, str]) -> Iterator[SettingValue]:
    dependencies = {name for service in registry.load(services) for name in service.depends_on} - set(services)
    for name in services:
        yield _plain(f"SKEIN_{name.upper()}_PORT", environment, registry.PORTS[name])
    for name in sorted(dependencies):
        yield _plain(f"SKEIN_{name.upper()}_ADDRESS", environment, "its port on this host")
    yield _plain(DATA_DIR, environment, default_data_dir())
    if "pc2" in services:
        for name, role in default_roles().items():
            yield _plain(name, environment, role)
        for number in registry.PC2_PORTS:
            yield _plain(setting_of(number), environment, "from SKEIN_PC2_BASE_PORT")
            if has_text(environment, f"{PC2_KEY}_{number}"):
                yield _secret(f"{PC2_KEY}_{number}", environment)
    if "recall" in services:
        model_keys = {name.removesuffix(FILE) for name in environment if name.startswith(f"{MODEL_KEY}_")} - {MODEL_KEY}
        for name in sorted(model_keys):
            yield _secret(name, environment)


def has_text(environment: Mapping[str, str], name: str) -> bool:
    """Tell whether a variable is set, by itself or as a file."""
    return bool(environment.get(name) or environment.get(f"{name}{FILE}"))


def _plain(name: str, environment: Mapping[str, str], default: object) -> SettingValue:
    text = environment.get(name, "")
    source = "environment" if text else ""
    return SettingValue(name=name, field="", value=text or default, default=default, source=source, secret=False)


def _secret(name: str, environment: Mapping[str, str]) -> SettingValue:
    source = "environment" if name in environment else f"file {environment[f'{name}{FILE}']}"
    value, problem = "", ""
    try:
        value = read_variable(environment, name) or ""
    except SettingInvalid as invalid:
        problem = str(invalid)
    return SettingValue(name=name, field="", value=value, default="", source=source, secret=True, problem=problem)
