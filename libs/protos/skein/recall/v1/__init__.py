"""Generated stubs of the proto package skein.recall.v1 and below."""
