"""What Argo CD names its checkouts after; ``tests/argocd/test_checkouts.py`` asks its own function."""

from __future__ import annotations

KEYS = {
    "https://h.example/Team/App.git": "https://h.example/team/app",
    "HTTPS://H.example/team/app.GIT": "https://h.example/team/app",
    "https://h.example/team/app": "https://h.example/team/app",
    "https://h.example:443/team/app": "https://h.example:443/team/app",
    "https://h.example/team/app/": "https://h.example/team/app/",
    "https://h.example//team/app": "https://h.example//team/app",
    "https://h.example/team/app.git/": "https://h.example/team/app.git/",
    "https://h.example/a%20b/%C3%BC": "https://h.example/a%20b/%c3%bc",
    "https://h.example/a%2Db": "https://h.example/a%2db",
    "https://h.example/~u/a+b,c=d:e": "https://h.example/~u/a+b,c=d:e",
    "https://org@h.example/team/app": "https://org@h.example/team/app",
    "http://h.example/team/app": "http://h.example/team/app",
    "ssh://git@h.example/team/app.git": "git@h.example/team/app",
    "git@h.example:team/app.git": "git@h.example/team/app",
    "git@H.example:Team/App": "git@h.example/team/app",
    "git@h.example:/team/app": "git@h.example//team/app",
    "ssh://git@h.example//team/app": "git@h.example//team/app",
    "ssh://git@h.example:2222/team/app": "git@h.example:2222/team/app",
    "git@h.example:2222/team/app": "git@h.example/2222/team/app",
    "git@h.example:a:b": "git@h.example/a:b",
    "ssh://git@h.example/a:b": "git@h.example/a:b",
    "ssh://h.example/team/app": "h.example/team/app",
    "ssh://h.example:22/team/app": "h.example:22/team/app",
    "git@h.example:~ann/app": "git@h.example/~ann/app",
    "a.b_c~+-d@h.example:app": "a.b_c~+-d@h.example/app",
}
"""By URLs that are accepted."""
