"""Serves git repositories over https, with ``git http-backend``; reading only.

Run as ``python -m devstack.git.https_server FOLDER PORT``, with the password in ``GIT_PASSWORD``.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from email.parser import BytesHeaderParser
from pathlib import Path

from aiohttp import BasicAuth, hdrs, web

from devstack.git.site import PRIVATE, GitSite
from devstack.supervisor.health_checks import HOST

CHALLENGE = {hdrs.WWW_AUTHENTICATE: 'Basic realm="private repositories"'}


def application(site: GitSite) -> web.Application:
    """The whole server but for its socket."""

    async def repository(request: web.Request) -> web.StreamResponse:
        if request.match_info["visibility"] == PRIVATE and not _admitted(request, site):
            return web.Response(status=401, headers=CHALLENGE, text="credentials are needed, or were wrong\n")
        return await _backend(request, site.repositories)

    app = web.Application()
    app.router.add_get("/healthz", _healthy)
    app.router.add_route("*", r"/{visibility:public|private}/{path:[\w.-]+\.git/.+}", repository)
    return app


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _admitted(request: web.Request, site: GitSite) -> bool:
    try:
        given = BasicAuth.decode(request.headers[hdrs.AUTHORIZATION])
    except (KeyError, ValueError):
        return False
    return site.admits(given.login, given.password)


async def _backend(request: web.Request, repositories: Path) -> web.Response:
    """Have git answer: a CGI program, which gets the request in its environment."""
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_PROJECT_ROOT": str(repositories),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        "REQUEST_METHOD": request.method,
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query_string,
        "CONTENT_TYPE": request.headers.get(hdrs.CONTENT_TYPE, ""),
    }
    backend = await asyncio.create_subprocess_exec(
        "git", "http-backend", env=environment, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    # aiohttp has undone a compression of the body already.
    output, _ = await backend.communicate(await request.read())
    head, _, body = output.partition(b"\r\n\r\n")
    headers = dict(BytesHeaderParser().parsebytes(head))
    status = int(headers.pop("Status", "200").split()[0])
    return web.Response(status=status, headers=headers, body=body)


def main() -> None:
    """Serve until told to stop."""
    folder, port = sys.argv[1:]
    serve(GitSite(Path(folder), int(port), 0, os.environ["GIT_PASSWORD"]), HOST)


def serve(site: GitSite, address: str) -> None:
    """Serve ``site`` at ``address`` until told to stop."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(site.pki.server_certificate, site.pki.server_key)
    web.run_app(application(site), host=address, port=site.https_port, ssl_context=context)


if __name__ == "__main__":
    main()
