"""Generated stubs of the proto package skein.recall and below."""
