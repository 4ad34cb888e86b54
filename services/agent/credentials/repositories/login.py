"""The login in a tenant's repository Secret. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.agent.credentials.check_result import INVALID_CREDENTIALS, CheckFailed

MAX_TEXT = 8 * 1024
MAX_PRIVATE_KEY = 16 * 1024
BEGINNING, ENDING = "-----BEGIN ", "PRIVATE KEY-----"


@dataclass(frozen=True, slots=True)
class Login:
    """A private key, or a name and a password; never both."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)


def login_of(values: dict[str, bytes]) -> Login:
    """The login in ``values``. Raises CheckFailed naming the field that is missing or unusable."""
    key = _text(values, "sshPrivateKey", MAX_PRIVATE_KEY)
    if key.strip():
        return Login(private_key=_private_key(key))
    username, password = _line(values, "username"), _line(values, "password")
    if not username and not password:
        raise unusable("the Secret has neither username and password nor sshPrivateKey")
    if ":" in username:
        raise unusable("the field username holds a colon")
    return Login(username, password)


def _private_key(text: str) -> str:
    """The key with Unix line ends, including the last, which ssh requires."""
    lines = text.replace("\r\n", "\n").strip()
    if not lines.startswith(BEGINNING) or not lines.endswith(ENDING) or not lines.isascii() or "\0" in lines:
        raise unusable("the field sshPrivateKey is not a private key in PEM or OpenSSH format")
    return f"{lines}\n"


def _line(values: dict[str, bytes], name: str) -> str:
    text = _text(values, name, MAX_TEXT)
    if any(ord(letter) < ord(" ") or ord(letter) == 127 for letter in text):  # noqa: PLR2004 - DEL
        raise unusable(f"the field {name} holds a line break or another control character")
    return text


def _text(values: dict[str, bytes], name: str, limit: int) -> str:
    value = values.get(name, b"")
    text = None
    if len(value) <= limit:
        text = value.decode(errors="replace")
    if text is None or "\ufffd" in text:
        raise unusable(f"the field {name} is longer than {limit} bytes, or not UTF-8 text")
    return text


def unusable(why: str) -> CheckFailed:
    """The failure of a Secret without a usable login."""
    return CheckFailed(INVALID_CREDENTIALS, f"the credentials are not usable: {why}")
