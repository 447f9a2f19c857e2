"""The Memory Orchestrator's dialect: an envelope with an action, answered by public RPCs."""

from skein_pc2.orchestrator.dialect import Orchestrator

__all__ = ["Orchestrator"]
