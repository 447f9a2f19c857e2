"""Generated stubs of the proto package skein.memory and below."""
