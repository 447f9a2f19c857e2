"""Generated stubs of the proto package skein.options.v1 and below."""
