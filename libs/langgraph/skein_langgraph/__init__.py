"""LangGraph's long-term memory on Skein: a `BaseStore` whose items are memories that every other client reads too.

    with SkeinStore.from_environment() as store:
        store.put(("users", "anna"), "drinks", {"likes": "green tea"})
        store.search(("users",), query="what does she drink?")

`async with` and `aput`, `asearch` and the like do the same without blocking.
"""

from skein_langgraph.search_filters import SearchLimitExceeded
from skein_langgraph.store import SkeinStore

__all__ = ["SearchLimitExceeded", "SkeinStore"]
