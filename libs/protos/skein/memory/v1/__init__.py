"""Generated stubs of the proto package skein.memory.v1 and below."""
