"""What every service shares: how to be a service."""

from __future__ import annotations

import os

# Before grpc is imported. Nothing of ours forks without exec, and the handlers that grpc installs for it write a line
# to stderr whenever a program is started.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
