"""The subcommands of `doctor fleet`, one file each; imported only when called."""
