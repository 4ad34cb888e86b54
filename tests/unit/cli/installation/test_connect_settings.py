"""Where Connect's REST API is, and which combinations of settings are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.cli.installation.connect import ConnectSettings, connect_client
from services.common.errors import InvalidConfiguration
from services.common.settings import load

HTTPS = "https://connect:8083"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "file"
    path.write_text("no certificate")
    return str(path)


@pytest.mark.parametrize(
    ("url", "given", "said"),
    [
        ("http://connect", ("CONNECT_CA",), "CONNECT_CA asks for a CONNECT_URL that begins with https://"),
        (
            "http://connect",
            ("CONNECT_CERTIFICATE", "CONNECT_KEY"),
            "CONNECT_CERTIFICATE asks for a CONNECT_URL that begins with https://",
        ),
        (HTTPS, ("CONNECT_CERTIFICATE",), "CONNECT_CERTIFICATE and CONNECT_KEY ask for each other"),
        (HTTPS, ("CONNECT_KEY",), "CONNECT_CERTIFICATE and CONNECT_KEY ask for each other"),
        ("connect:8083", (), "CONNECT_URL"),
    ],
)
def test_settings_when_they_do_not_fit_then_the_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, file: str, url: str, given: tuple[str, ...], said: str
) -> None:
    monkeypatch.setenv("CONNECT_URL", url)
    for name in given:
        monkeypatch.setenv(name, file)
    with pytest.raises(InvalidConfiguration) as refusal:
        load(ConnectSettings)
    assert said in str(refusal.value)


def test_client_when_a_file_is_no_certificate_then_its_settings_are_named(file: str) -> None:
    with pytest.raises(InvalidConfiguration, match="CONNECT_CA, CONNECT_CERTIFICATE or CONNECT_KEY"):
        connect_client(ConnectSettings(connect_url=HTTPS, connect_ca=Path(file)))
