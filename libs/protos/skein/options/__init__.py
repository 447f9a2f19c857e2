"""Generated stubs of the proto package skein.options and below."""
