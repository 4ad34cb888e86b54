"""The step that gives images to containerd: archives, because no registry is there to be asked."""

from __future__ import annotations

import sys

from devstack.node.commands import run


def main() -> None:
    """Import each archive into the containerd at the socket that is named first."""
    address, *archives = sys.argv[1:]
    for archive in archives:
        run("ctr", "--address", address, "--namespace", "k8s.io", "images", "import", archive)


if __name__ == "__main__":
    main()
