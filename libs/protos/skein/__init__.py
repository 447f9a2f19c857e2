"""Generated stubs of the proto package skein and below."""
