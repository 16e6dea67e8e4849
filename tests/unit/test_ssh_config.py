"""The user's ssh configuration: where it decides, what is refused, and how targets come of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.cli import run_cli
from harness.errors import UsageError
from harness.hosts.ssh.target import Asked, Target, read_config, resolve, users_config
from harness.hosts.ssh_config import Config, Question, SshConfigError
from harness.hosts.ssh_config.keywords import seconds
from harness.hosts.ssh_config.lines import delimited, split
from harness.hosts.ssh_config.patterns import in_list, matches

SSH = shutil.which("ssh")


BAD = [
    ("Host web1\n  User\n", ":2: nothing follows 'User'"),
    ("Host web1\n\n  Usr ann\n", ":3: ssh has no option 'usr'"),
    ("Host other\n  Port 0\n", ":2: port: '0' is no port"),
    ("ConnectTimeout soon\n", ":1: connecttimeout: 'soon' is no time"),
    ("User ann bert\n", ":1: user: it has 2 values, and takes one"),
    ('IdentityFile "~/a key\n', ":1: a quotation mark has no second one"),
    ("Match\n", ":1: nothing follows 'Match'"),
    ("Match host\n", ":1: Match host says nothing"),
    ("Match wind north\n", ":1: Match has no criterion 'wind'"),
    ("Match user ann host b all\n", ":1: 'all' cannot be combined"),
    ("HostName %q\n", "HostName of web1: '%q' has no meaning there"),
    ("Include config\n", "Include goes over 16 files deep"),
    ("IdentitiesOnly perhaps\n", ":1: identitiesonly: 'perhaps' is none of"),
]


@pytest.mark.parametrize(("config", "message"), BAD)
def test_what_ssh_refuses_is_refused_with_file_and_line(config: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(config.replace("Include config", f"Include {file}"))
    with pytest.raises(SshConfigError) as caught:
        Config(file).lookup(Question("web1", home=tmp_path))
    assert message in str(caught.value) and caught.value.exit_code == 2
    assert SSH is None or subprocess.run([SSH, "-F", str(file), "-G", "web1"], capture_output=True).returncode


def of(config: str, host: str, home: Path, asked: Asked | None = None) -> Target:
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh" / "config").write_text(config)
    return resolve(asked or Asked(host), read_config(home / ".ssh" / "config"), home=home)


def test_what_follows_an_include_is_still_for_all_hosts(tmp_path: Path) -> None:
    (tmp_path / ".ssh" / "parts").mkdir(parents=True)
    (tmp_path / ".ssh" / "parts" / "10-lab").write_text("Host lab-*\n  User lara\n  Include deeper\n")
    (tmp_path / ".ssh" / "parts" / ".hidden").write_text("User nobody\n")
    (tmp_path / ".ssh" / "deeper").write_text("Port 2022\nHost never\n  ConnectTimeout 99\n")
    config = "Include parts/* absent\nUser olga\nIdentityFile ~/.ssh/olga\n"
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


@pytest.mark.parametrize(
    ("networks", "here"),
    [("127.0.0.0/8", True), ("192.0.2.0/24,127.0.0.1/32", True), ("192.0.2.77", False), ("2001:db8:1::/48", False)],
)
def test_a_local_network_is_one_that_this_machine_is_in(networks: str, here: bool, tmp_path: Path) -> None:
    config = f"Match localnetwork {networks}\n  ProxyJump gate\nMatch !localnetwork={networks}\n  User away\n"
    target = of(config, "gpu1", tmp_path, Asked("gpu1", jump=None)) if not here else None
    if target is not None:
        assert (target.user, target.jump) == ("away", None)
        return
    with pytest.raises(UsageError, match="circle"):
        of(config, "gpu1", tmp_path)  # of the jump the same is true: ssh calls it a loop


@pytest.mark.parametrize("networks", ["192.0.2.1/24", "home", "10.0.0.0/40", "10.0.0.0/8,,"])
def test_what_is_no_network_is_an_error(networks: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="config:1: Match localnetwork"):
        of(f"Match localnetwork {networks}\n  User x\n", "gpu1", tmp_path)


def test_a_command_decides_once_for_all_hosts_and_only_where_it_is_asked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = f'Match user nobody-at-all exec "echo no >>{log}"\n  Port 1\nMatch exec "echo %p >>{log}"\n  User ran\n'
    file = tmp_path / "config"
    file.write_text(config)
    read = Config(file)
    assert [read.lookup(Question(f"gpu{n}", home=tmp_path)).user for n in range(5)] == ["ran"] * 5
    assert log.read_text() == "22\n"


@pytest.mark.parametrize(("command", "why"), [("kill -9 $$", "ended by signal 9")])
def test_a_command_that_does_not_end_well_is_an_error(command: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"config:1: Match exec: .*{why}"):
        of(f'Match exec "{command}"\n  User x\n', "gpu1", tmp_path)


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
    assert capsys.readouterr().err.count("config:2: ssh has no option 'prot'") == 1


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
    with pytest.raises(UsageError, match=r"cannot be a (host|user)"):
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
    with pytest.raises(UsageError, match="none of the domains"):
        of(start + "CanonicalizeFallbackLocal no\n", "gpu1", tmp_path)
    assert of(start + "CanonicalizeFallbackLocal no\n", "192.0.2.1", tmp_path).address == "192.0.2.1"


def test_a_configuration_in_bad_hands_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("User x\n")
    file.chmod(0o646)
    with pytest.raises(SshConfigError, match="everybody may write to it"):
        read_config(file)
    (tmp_path / "part").mkdir()
    assert read_config(tmp_path / "part").lookup(Question("a", home=tmp_path)).port == 22
    assert read_config(tmp_path / "none" / "config").lookup(Question("a", home=tmp_path)).port == 22


def test_comments_in_any_encoding_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes("# Übung\nUser jörg\r\n".encode("latin-1").replace(b"j\xf6rg", b"joerg"))
    assert read_config(file).lookup(Question("a", home=tmp_path)).user == "joerg"


@pytest.mark.parametrize(
    "config",
    [
        "Include ~no-such-user-here/x\n",
        "Include \0*\nUser x\n",
        "IdentityFile ~no-such-user-here/key\n",
        "UserKnownHostsFile ~no-such-user-here/k\n",
        "Include [\n",
    ],
)
def test_names_that_are_of_nobody_name_no_file(config: str, tmp_path: Path) -> None:
    try:
        assert of(config, "gpu1", tmp_path).address == "gpu1"
    except UsageError as error:
        assert "config:1: nothing follows" in error.message


def test_the_systems_file_comes_after_the_users(tmp_path: Path) -> None:
    users, systems = tmp_path / "config", tmp_path / "ssh_config"
    users.write_text("Host a\n  Port 2\n")
    systems.write_text("Include extra\nHost *\n  Port 3\n  User s\n  SomethingOfThisDistribution yes\n")
    (tmp_path / "extra").write_text("ConnectTimeout 9\n")
    found = read_config(users, system=systems).lookup(Question("a", home=tmp_path))
    assert (found.port, found.user, found.one["connecttimeout"]) == (2, "s", "9")
    assert users_config(tmp_path).lookup(Question("a", home=tmp_path)).port == 22


@given(st.text(max_size=60), st.text(alphabet="ab*?", max_size=5))
def test_patterns_are_what_regular_expressions_make_of_them(text: str, pattern: str) -> None:
    rest = text.replace("\n", "") + "ab"
    regex = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    assert matches(rest, pattern) == bool(re.fullmatch(regex, rest, re.DOTALL))


def test_a_pattern_of_stars_takes_no_longer_than_others() -> None:
    """Backtracking would take longer than the universe is old."""
    assert not matches("a" * 2000, "*a" * 60 + "b")


def test_lists_of_patterns_and_words() -> None:
    assert in_list("gpu1", "cpu*,gpu*,!gpu2") and not in_list("gpu2", "gpu*,!gpu2") and not in_list("x", "!gpu2")
    assert split(r"""a "b c" 'd e' f\ g "h\"i" # j""") == ("a", "b c", "d e", "f g", 'h"i')
    assert split("a 'b") is None
    assert delimited('"a b" = c') == ("a b", "= c") and delimited("a = b") == ("a", "b")
    assert seconds("1h1m1") == "3661" and seconds("NONE") == "none"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(max_size=30), max_size=8).map("\n".join))
def test_no_text_at_all_ends_in_anything_but_an_answer_or_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text, errors="replace")
    try:
        Config(file).lookup(Question("web1", home=tmp_path))
    except SshConfigError as error:
        assert str(file) in error.message
