"""Groups of commands that ``gitopsctl`` has in a checkout beside the operators'."""

GROUPS = {
    "containers": "devstack.commands.containers",
    "demo": "devstack.commands.demo",
    "dev": "devstack.commands.dev",
    "toolchain": "devstack.commands.toolchain",
    "generate": "devstack.commands.generate",
}
"""Module of each group of commands; each has a typer application named ``app``."""
