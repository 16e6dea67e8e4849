"""The user's own key files: one that others may read is not offered, as OpenSSH has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.hosts.ssh import keys as ssh_keys


@pytest.fixture
def key(tmp_path: Path) -> Path:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = tmp_path / "id_ed25519"
    text = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    path.write_bytes(text)
    return path


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o622, 0o666])
def test_a_key_that_others_may_read_is_not_used(key: Path, mode: int) -> None:
    key.chmod(mode)
    found, why = ssh_keys._loaded(key)
    assert found is None
    assert why == f"{key} is not used: others may read or change it (mode {mode:04o}); chmod 600 {key}"


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_key_of_one_s_own_is_used(key: Path, mode: int) -> None:
    key.chmod(mode)
    found, why = ssh_keys._loaded(key)
    assert (found is not None, why) == (True, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_key_that_an_administrator_shares_is_used(key: Path) -> None:
    key.chmod(0o644)
    os.chown(key, 12345, 12345)
    assert ssh_keys._loaded(key)[0] is not None
