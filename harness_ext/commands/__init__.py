"""The subcommands of `taskvec`, one module each, listed in ``harness_ext.cli.COMMANDS``."""
