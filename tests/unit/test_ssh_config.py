"""The user's ssh configuration: where it decides, what is refused, and how targets come of it."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

import pytest

from harness.cli import run_cli
from harness.errors import UsageError
from harness.hosts.ssh import options
from harness.hosts.ssh.options import Config, Question, SshConfigError, users_config
from harness.hosts.ssh.target import Asked, Target, resolve

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="openssh-client is not installed")

BAD = [
    ("Host web1\n  User\n", "config line 2: no argument"),
    ("Host web1\n\n  Usr ann\n", "config: line 3: Bad configuration option: usr"),
    ("Host other\n  Port 0\n", "config line 2: Bad port '0'"),
    ("Match wind north\n", "config line 1: Bad Match condition"),
    ("Include config\n", "recursive"),
]


@pytest.mark.parametrize(("config", "message"), BAD)
def test_what_ssh_refuses_is_refused_in_its_words(config: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(config.replace("Include config", f"Include {file}"))
    with pytest.raises(SshConfigError) as caught:
        Config(file, tmp_path).lookup(Question("web1"))
    assert message in str(caught.value) and caught.value.exit_code == 2


def of(config: str, host: str, home: Path, asked: Asked | None = None) -> Target:
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh" / "config").write_text(config)
    return resolve(asked or Asked(host), Config(home / ".ssh" / "config", home))


def test_what_follows_an_include_is_still_for_all_hosts(tmp_path: Path) -> None:
    (tmp_path / ".ssh" / "parts").mkdir(parents=True)
    (tmp_path / ".ssh" / "parts" / "10-lab").write_text(f"Host lab-*\n  User lara\n  Include {tmp_path}/.ssh/deeper\n")
    (tmp_path / ".ssh" / "parts" / ".hidden").write_text("User nobody\n")
    (tmp_path / ".ssh" / "deeper").write_text("Port 2022\nHost never\n  ConnectTimeout 99\n")
    config = f"Include {tmp_path}/.ssh/parts/* absent\nUser olga\nIdentityFile ~/.ssh/olga\n"
    one, two = of(config, "lab-1", tmp_path), of(config, "far", tmp_path)
    assert (one.shown, two.shown) == ("lara@lab-1:2022", "olga@far")
    assert one.keys == two.keys == (tmp_path / ".ssh" / "olga",)
    assert one.connect_timeout_s == 10.0


def test_an_include_in_a_block_counts_there_alone_and_ends_no_block(tmp_path: Path) -> None:
    (tmp_path / "common").write_text(
        "ConnectTimeout 4\nHost quite-another\n  User wrong\nMatch all\n  Compression yes\n"
    )
    config = f"Host gpu*\n  Include {tmp_path}/common\n  User otto\n  Port 2200\n"
    assert of(config, "gpu4", tmp_path).shown == "otto@gpu4:2200"
    assert of(config, "gpu4", tmp_path).connect_timeout_s == 4.0
    assert of(config, "cpu4", tmp_path).connect_timeout_s == 10.0
    assert of(config, "cpu4", tmp_path).port == 22


@pytest.mark.parametrize("word", ["Host", "HOST", "host", "!originalhost"])
def test_the_words_of_match_are_known_in_any_case(word: str, tmp_path: Path) -> None:
    config = f"Match {word} 172.16.* User admin\n  IdentityFile ~/admin.pem\nHost *\n  IdentityFile ~/mine\n"
    keys = {str(path.name) for path in of(config, "gpu1", tmp_path, Asked("gpu1", user="olga")).keys}
    assert keys == {"mine"}
    found = of(config, "x", tmp_path, Asked("n", "172.16.0.4", user="admin")).keys
    assert ("admin.pem" in {path.name for path in found}) == (word != "!originalhost")


def test_tokens_are_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", "/keys")
    config = (
        "Host short\n  HostName %h.Site.example\n  Port 2203\n  User uwe\n  HostKeyAlias The-Alias\n"
        "  IdentityFile %d/.ssh/%r@%n\n  IdentityFile ${KEYS}/%h-100%%\n"
        '  UserKnownHostsFile "~/known of/%k" /tmp/%p\n  GlobalKnownHostsFile none\n  ConnectTimeout 2m\n'
    )
    target = of(config, "short", tmp_path)
    assert target.shown == "uwe@short.site.example:2203"
    assert target.keys == (tmp_path / ".ssh" / "uwe@short", Path("/keys/short.site.example-100%"))
    assert target.known_hosts == (tmp_path / "known of" / "the-alias", Path("/tmp/2203"))
    assert target.connect_timeout_s == 120.0
    with pytest.raises(UsageError, match="NOT_SET_AT_ALL"):
        of("IdentityFile ${NOT_SET_AT_ALL}/x\n", "short", tmp_path)


def test_a_proxy_command_is_taken_as_it_stands(tmp_path: Path) -> None:
    config = "Host gpu*\n  ProxyCommand   tool --to '%h':%p --as %r --of %n 100%% # all\n  ProxyJump gate\nHost gate\n"
    target = of(config, "gpu1", tmp_path, Asked("gpu1", user="uwe"))
    assert target.proxy_command == "tool --to 'gpu1':22 --as uwe --of gpu1 100% # all"
    assert target.jump is None
    assert of(config, "gpu1", tmp_path, Asked("gpu1", jump="none")).proxy_command is None
    jumping = of(config, "gpu1", tmp_path, Asked("gpu1", jump="gate"))
    assert (jumping.proxy_command, jumping.jump and jumping.jump.address) == (None, "gate")
    with pytest.raises(UsageError, match="ProxyUseFdpass"):
        of("ProxyCommand x\nProxyUseFdpass yes\n", "gpu1", tmp_path)


def test_hosts_list_shows_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    of("Host gpu1\n  ProxyCommand tool %h\n", "gpu1", tmp_path)
    (tmp_path / "c.yaml").write_text("schema: 1\nhosts:\n- {name: gpu1, user: uwe}\n")
    assert run_cli(["hosts", "list", "--inventory", str(tmp_path / "c.yaml")]) == 0
    assert capsys.readouterr().out == "gpu1  uwe@gpu1 through ProxyCommand: tool gpu1\n"


def test_a_mistake_in_the_configuration_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host *\n  Prot 22\n")
    (tmp_path / "c.yaml").write_text("schema: 1\nhosts:\n- {name: gpu1}\n- {name: gpu2}\n")
    assert run_cli(["hosts", "list", "--inventory", str(tmp_path / "c.yaml")]) == 2
    assert capsys.readouterr().err.count("config: line 2: Bad configuration option: prot") == 1


@pytest.mark.parametrize(
    "asked",
    [
        Asked("n1", user="$(id)"),
        Asked("n1", user="a;b"),
        Asked("n1", user="-oX"),
        Asked("n1", "$(id)"),
        Asked("n1", "-x"),
        Asked("n1", jump="`id`"),
        Asked("n1", jump="a|b@gate"),
    ],
)
def test_no_word_of_the_inventory_is_a_shells(asked: Asked, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be a (host|user)|invalid (host|user)name"):
        of(f"ProxyCommand touch {tmp_path}/%h-%r\n", "n1", tmp_path, asked)
    assert of("", "n1", tmp_path, Asked("n1", user="DOMAIN\\joe")).user == "DOMAIN\\joe"


def test_the_agent_of_the_configuration_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_AGENT", "/run/mine")
    assert of("IdentityAgent ~/agents/%r\nUser uwe\n", "gpu1", tmp_path).agent_socket == tmp_path / "agents" / "uwe"
    assert of("IdentityAgent $MY_AGENT\n", "gpu1", tmp_path).agent_socket == Path("/run/mine")
    assert of("IdentityAgent SSH_AUTH_SOCK\n", "gpu1", tmp_path).agent_socket is None
    assert of("IdentityAgent None\n", "gpu1", tmp_path).agent == "none"


def test_a_second_reading_knows_the_host_by_its_whole_name(tmp_path: Path) -> None:
    config = "Host tiny\n  HostName big.example\nMatch final host big.example\n  User finn\nHost big*\n  Port 2204\n"
    assert of(config, "tiny", tmp_path).shown == "finn@big.example:2204"


def test_names_are_made_whole_where_the_configuration_says_so(tmp_path: Path) -> None:
    start = "CanonicalizeHostname yes\nCanonicalDomains invalid\n"
    assert of(start, "gpu1", tmp_path).address == "gpu1"
    with pytest.raises(UsageError, match="Could not resolve host"):
        of(start + "CanonicalizeFallbackLocal no\n", "gpu1", tmp_path)
    assert of(start + "CanonicalizeFallbackLocal no\n", "192.0.2.1", tmp_path).address == "192.0.2.1"


def test_a_file_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert Config(tmp_path / "none" / "config", tmp_path).lookup(Question("a")).port == 22


@pytest.mark.parametrize("config", ["Include ~no-such-user-here/x\n", "IdentityFile ~no-such-user-here/key\n"])
def test_names_that_are_of_nobody_name_no_file(config: str, tmp_path: Path) -> None:
    assert of(config, "gpu1", tmp_path).address == "gpu1"


def test_the_homes_own_files_are_those_of_the_user(tmp_path: Path) -> None:
    """HOME may be another one than the system knows, to which `ssh` itself keeps."""
    system = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert users_config(system).file is None
    assert users_config(tmp_path).file == tmp_path / ".ssh" / "config"
    found = users_config(tmp_path).lookup(Question("a")).known_hosts()
    assert found[0] == str(tmp_path / ".ssh" / "known_hosts")


def test_without_ssh_only_a_configuration_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    target = resolve(Asked("GPU1", user="uwe", port=7, jump="gate"), Config(tmp_path / "none", tmp_path))
    assert (target.shown, target.jump and target.jump.port) == ("uwe@gpu1:7", 22)
    with pytest.raises(SshConfigError, match="`ssh` is not installed"):
        of("User x\n", "gpu1", tmp_path)


def test_a_command_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "LIMIT_S", 0.2)
    with pytest.raises(SshConfigError, match="did not end within"):
        of('Match exec "sleep 60"\n  User x\n', "gpu1", tmp_path)
