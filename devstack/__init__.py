"""The local stack: every process of the product and of what it stands on, without containers; no part of a release.

From below: ``supervisor`` runs processes; ``toolchain`` installs their programs; ``stack`` holds the folder, ports and
identities of one stack; ``node`` makes the machine a node of its cluster; ``components`` has a module for each process;
``harness`` starts a stack, ends it and follows what happens in it; ``demo`` and ``commands`` use it.
"""
