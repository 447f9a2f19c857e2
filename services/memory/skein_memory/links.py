"""Links between memories and the rules they obey. No gRPC, no SQL, no clock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from skein_kit.errors import FieldInvalid, TextNotStorable
from skein_kit.ids import new_id
from skein_kit.wire import json_of
from skein_memory.errors import LinkToItself

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein.memory.v1 import memory_pb2 as pb

DEFAULT_RELATION = "related"
DEFAULT_WEIGHT = 1.0
