"""The git server of Compose: over https, with one repository to begin with.

Run as ``python -m devstack.git.example_server FOLDER HOST PORT AUTHORITY``, with the password of private repositories
in ``GIT_PASSWORD``. What clients have to trust is copied to ``AUTHORITY``: of the folder they see nothing else.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from devstack.git.https_server import serve
from devstack.git.site import PUBLIC, GitSite

NAME = "example"
FILES = {
    "app/settings.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: hello}
""",
}
EVERYWHERE = "0.0.0.0"  # noqa: S104 - of a container, whose network decides who comes


def prepare(site: GitSite, authority: Path) -> None:
    """Make what is not there yet."""
    site.prepare()
    if not (site.repositories / PUBLIC / f"{NAME}.git").exists():
        site.create(NAME).commit(FILES)
    shutil.copyfile(site.pki.authority, authority)


def main() -> None:
    """Serve until told to stop."""
    folder, host, port, authority = sys.argv[1:]
    site = GitSite(Path(folder), int(port), 0, os.environ["GIT_PASSWORD"], host)
    prepare(site, Path(authority))
    serve(site, EVERYWHERE)


if __name__ == "__main__":
    main()
