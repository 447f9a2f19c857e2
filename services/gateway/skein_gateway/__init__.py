"""The public entry of the cluster: identity, limits, forwarding and fan-out."""

import importlib.metadata

# Every installation of a service has this distribution, and all have its version.
VERSION = importlib.metadata.version("skein-protos")
