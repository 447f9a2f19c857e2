"""The subcommands of `skein`, one module for each group of them."""
