"""LangGraph's long-term memory on Skein: a `BaseStore` whose items are memories that every other client reads too.

    with SkeinStore.from_environment() as store:
        store.put(("users", "anna"), "drinks", {"likes": "green tea"})
        store.search(("users",), query="what does she drink?")

Needs `skein-client[langgraph]`.
"""

try:
    import langgraph.store.base  # noqa: F401 - whether it is there.
except ImportError as error:
    message = "skein_client.langgraph needs LangGraph's base classes: pip install 'skein-client[langgraph]'"
    raise ImportError(message) from error

from skein_client.langgraph.matching import SearchTooWide
from skein_client.langgraph.store import SkeinStore

__all__ = ["SearchTooWide", "SkeinStore"]
