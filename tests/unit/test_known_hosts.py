"""Which host keys are believed: every line of known_hosts counts for itself, as `ssh-keygen -F` finds it."""

from __future__ import annotations

import base64
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paramiko import Ed25519Key, PKey

from harness.errors import SshError
from harness.hosts.ssh.keys import KnownHosts, is_hash_of, known_hosts, read_entry
from harness.hosts.ssh.target import Target

KEYGEN = shutil.which("ssh-keygen")


@cache
def key(number: int = 0) -> PKey:
    """A key as hosts show it: its public half."""
    blob = b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00 " + bytes([number + 1]) * 32
    return Ed25519Key(data=blob)


def line(names: str, number: int = 0, marker: str = "") -> str:
    return f"{marker}{names} ssh-ed25519 {base64.b64encode(key(number).asbytes()).decode()}\n"


def verdict(folder: Path, text: str | bytes, name: str, number: int = 0, port: int = 22) -> str:
    file = folder / "known"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        KnownHosts((file,)).check(Target("h", name, "u", port), key(number))
    except SshError as error:
        return error.kind
    return "ok"


DAMAGED = [
    "|1|abc|abc ssh-ed25519 {blob}",
    "|1|c2hvcnQ=|c2hvcnQ= ssh-ed25519 {blob}",
    "|1|!!!|### ssh-ed25519 {blob}",
    "|2|a|b ssh-ed25519 {blob}",
    "|1|only ssh-ed25519 {blob}",
    "other ssh-ed25519 AAAA",
    "other ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA",
    "other ssh-ed25519 not!base64",
    "other ssh-rsa {blob}",
    "other ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAA",
    "other ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAI",
    "other 1024 35 12345",
    "other",
    "@revoked",
    "@nobody-knows * ssh-ed25519 {blob}",
    "\x00\x01\x02",
    "<<<<<<< HEAD",
    "! ssh-ed25519",
    "# web1\x0bweb1 ssh-ed25519 {blob}",
]


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("before", [True, False])
def test_a_damaged_line_harms_no_other(damage: str, before: bool, tmp_path: Path) -> None:
    text = damage.format(blob=base64.b64encode(key(7).asbytes()).decode()) + "\n"
    good = line("web1,192.0.2.41")
    whole = text + good if before else good + text
    assert verdict(tmp_path, whole, "web1") == "ok"
    assert verdict(tmp_path, whole, "192.0.2.41") == "ok"
    assert verdict(tmp_path, whole, "web1", 7) == "changed_host_key"
    assert verdict(tmp_path, whole, "web2", 7) == "unknown_host_key"


def test_what_could_not_be_read_is_named_where_a_key_is_missed(tmp_path: Path) -> None:
    file = tmp_path / "known"
    file.write_text("# mine\n" + line("web1") + "other ssh-ed25519 AAAA\n")
    with pytest.raises(SshError, match=rf"not read, as damaged: {file}:3"):
        KnownHosts((file, tmp_path / "none", tmp_path)).check(Target("h", "web2", "u"), key())


KINDS = (
    line("web1,web1.lan,192.0.2.41")
    + line("[jump.lan]:2022,[192.0.2.5]:2022", 1)
    + line("*.ca.lan", 2, "@cert-authority ")
    + line("old1", 0, "@revoked ")
    + line("*.farm.lan,!bad.farm.lan", 1)
    + line("Upper.Lan", 2)
    + "\t" + line("tab1")
    + line("crlf1").replace("\n", "\r\n")
    + line("2001:db8::8")
    + line("[2001:db8::9]:2201")
    + line("both", 3) + line("both", 4)
)  # fmt: skip
WANTED = [
    ("web1", 22, 0, "ok"),
    ("WEB1", 22, 0, "ok"),
    ("192.0.2.41", 22, 0, "ok"),
    ("web1", 22, 1, "changed_host_key"),
    ("web1", 2200, 0, "ok"),
    ("web1", 2200, 1, "unknown_host_key"),
    ("jump.lan", 2022, 1, "ok"),
    ("jump.lan", 22, 1, "unknown_host_key"),
    ("x.ca.lan", 22, 2, "unknown_host_key"),
    ("old1", 22, 0, "revoked_host_key"),
    ("old1", 22, 1, "unknown_host_key"),
    ("n1.farm.lan", 22, 1, "ok"),
    ("bad.farm.lan", 22, 1, "unknown_host_key"),
    ("upper.lan", 22, 2, "ok"),
    ("tab1", 22, 0, "ok"),
    ("crlf1", 22, 0, "ok"),
    ("2001:db8::8", 22, 0, "ok"),
    ("2001:db8::9", 2201, 0, "ok"),
    ("both", 22, 3, "ok"),
    ("both", 22, 4, "ok"),
    ("both", 22, 5, "changed_host_key"),
]


@pytest.mark.parametrize(("name", "port", "number", "wanted"), WANTED)
def test_every_kind_of_line(name: str, port: int, number: int, wanted: str, tmp_path: Path) -> None:
    assert verdict(tmp_path, KINDS, name, number, port) == wanted


@pytest.mark.skipif(KEYGEN is None, reason="openssh-client is not installed")
@pytest.mark.parametrize(("name", "port", "number", "wanted"), WANTED)
def test_the_same_with_names_that_ssh_keygen_hashed(
    name: str, port: int, number: int, wanted: str, tmp_path: Path
) -> None:
    file = tmp_path / "known"
    file.write_text(KINDS)
    subprocess.run([str(KEYGEN), "-q", "-H", "-f", str(file)], check=True, capture_output=True, timeout=60)
    assert "|1|" in file.read_text()
    assert verdict(tmp_path, file.read_bytes(), name, number, port) == wanted


def test_a_file_that_may_not_be_read_knows_nobody(tmp_path: Path) -> None:
    assert known_hosts((tmp_path,)).types("a") == []
    assert known_hosts((tmp_path / "none" / "x",)).types("a") == []


patterns = st.sampled_from(["web1", "web?", "*", "!web1", "*.lan", "!*.lan", "[web1]:2201", "a,b", "WEB1", "192.0.2.*"])
names = st.sampled_from(["web1", "web2", "x.lan", "192.0.2.4", "b"])


@pytest.mark.skipif(KEYGEN is None, reason="openssh-client is not installed")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(patterns, min_size=1, max_size=3).map(",".join), max_size=4), names)
def test_lines_are_about_whom_ssh_keygen_says(tmp_path: Path, entries: list[str], name: str) -> None:
    file = tmp_path / "known"
    file.write_text("".join(line(each, index) for index, each in enumerate(entries)))
    done = subprocess.run([str(KEYGEN), "-F", name, "-f", str(file)], capture_output=True, text=True, timeout=60)
    theirs = [each for each in done.stdout.splitlines() if not each.startswith("#")]
    read = [(each, read_entry(each.split())) for each in file.read_text().splitlines()]
    ours = [each for each, entry in read if entry is not None and entry.is_about(name)]
    assert [each.split()[2] for each in theirs] == [each.split()[2] for each in ours]


@given(st.binary(max_size=120))
def test_no_line_and_no_hash_raises(data: bytes) -> None:
    text = data.decode(errors="replace")
    assert not is_hash_of(f"|1|{text}", "web1")
    for kind in ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ssh-dss", "sk-ssh-ed25519@openssh.com", text):
        blob = len(kind).to_bytes(4, "big") + kind.encode() + data
        words = f"web1 {kind} {base64.b64encode(blob).decode()}".split()
        entry = read_entry(words) if words else None
        assert entry is None or entry.is_about("web1")
