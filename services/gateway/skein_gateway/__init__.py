"""The public entry of the cluster: identity, limits, forwarding and fan-out."""

import importlib.metadata

VERSION = importlib.metadata.version("skein-gateway")
