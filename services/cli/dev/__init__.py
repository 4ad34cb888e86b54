"""The local stack: every process of the product and of what it stands on, without containers.

``toolchain`` installs the programs, ``stack`` says which processes there are, ``supervisor`` runs them.
"""
