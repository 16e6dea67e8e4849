"""The user's ssh configuration means what `ssh -G` says: it is asked about configurations made by chance."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.hosts.ssh_config import Config, Question, SshConfigError
from harness.hosts.ssh_config.keywords import seconds
from harness.hosts.ssh_config.lines import delimited, split
from harness.hosts.ssh_config.patterns import in_list, matches
from harness.hosts.ssh_target import Asked, Target, read_config, resolve, users_config

SSH = shutil.which("ssh")
needs_ssh = pytest.mark.skipif(SSH is None, reason="openssh-client is not installed")
HOSTS = ("web1", "WEB2", "db7.lan", "relay", "198.51.100.7", "2001:db8::7", "a-b_c")
SHOWN = ("hostname", "user", "port", "hostkeyalias", "proxyjump", "proxycommand", "userknownhostsfile")


@dataclass(frozen=True)
class Told:
    """What `ssh -G` printed; None: it refused."""

    one: dict[str, str]
    identities: list[str]


def asked_of_ssh(file: Path, host: str, *options: str) -> Told | None:
    words = [str(SSH), "-F", str(file), *options, "-G", host]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    if done.returncode != 0:
        return None
    pairs = [line.partition(" ")[::2] for line in done.stdout.splitlines()]
    return Told(dict(pairs), [value for key, value in pairs if key == "identityfile"])


def asked_of_us(file: Path, question: Question) -> Told | None:
    try:
        found = Config(file).lookup(question)
    except SshConfigError:
        return None
    one = {"hostname": found.host, "user": found.user, "port": str(found.port)}
    one |= {"hostkeyalias": found.alias} if found.alias else {}
    one |= {"proxyjump": found.jump} if found.jump and found.jump != "none" else {}
    command = found.proxy_command
    one |= {"proxycommand": command} if command and command.lower() != "none" else {}
    one |= {key: " ".join(words) for key, words in found.many.items()}
    one |= {key: found.one[key] for key in ("identitiesonly", "connecttimeout") if key in found.one}
    return Told(one, list(found.identities))


def compare(folder: Path, config: str, host: str, user: str | None = None, port: int | None = None) -> None:
    file = folder / "config"
    file.write_text(config)
    options = [*(["-l", user] if user else []), *(["-p", str(port)] if port else [])]
    theirs, ours = asked_of_ssh(file, host, *options), asked_of_us(file, Question(host, user, port, home=folder))
    assert (theirs is None) == (ours is None), (theirs and "ssh takes it", config)
    if theirs is None or ours is None:
        return
    for key in {*SHOWN, *ours.one} & {*theirs.one, *ours.one}:
        default = key in ("userknownhostsfile",) and key not in ours.one
        assert default or ours.one.get(key) == theirs.one.get(key), (key, config)
    assert not ours.identities or ours.identities == theirs.identities, config


names = st.sampled_from(HOSTS)
patterns = st.sampled_from(
    ["*", "web?", "web*", "!web1", "WEB2", "web2", "*.lan", "!*.lan", "198.51.*", "relay", "2001:*", "a-b_c", "*b*c"]
)
users = st.sampled_from(["ann", "bert", "root", "x.y"])
quoted = st.sampled_from(["{}", '"{}"'])
gaps = st.sampled_from([" ", "  ", "\t", "=", " = ", "= "])


@st.composite
def spelt(draw: st.DrawFn, word: str) -> str:
    return draw(st.sampled_from([word, word.lower(), word.upper()]))


SELDOM = [
    ("User", ["x y", ""]),
    ("Port", ["0", "65536", "22x", "-1", " 22"]),
    ("ConnectTimeout", ["1x", "5 5"]),
    ("IdentitiesOnly", ["perhaps"]),
    ("LaterKnown", ["x"]),
    ("bogus", ["y"]),
    ("IdentityFile", ["/a b", "a\\ b", "'/c d'", '"/e"f', "${HOME}/k"]),
    ("UserKnownHostsFile", ['"/a b" /c', "", "'/x y'"]),
    ("HostName", ["", "%n.x", "%%h"]),
    ("ProxyCommand", ["'unmatched", "=x", '"quoted command" %h']),
    ("ProxyJump", ["a,,b", "", "a:0", "a:99999", "@a", "u@v@w", "[::1]", "a # words"]),
]
"""Wrong, or only seldom right."""


@st.composite
def option(draw: st.DrawFn) -> str:
    keyword, values = draw(
        st.sampled_from(
            [
                ("User", ["ann", "bert", "x.y"]),
                ("Port", ["22", "2201", "ssh", "65535"]),
                ("HostName", ["%h.example", "Real.Example", "198.51.100.9", "x%%y", "2001:DB8:0::1"]),
                ("HostKeyAlias", ["One", "two"]),
                ("IdentityFile", ["~/.ssh/k1", "%d/k2", "/k/3", "none"]),
                ("IdentitiesOnly", ["yes", "no", "True"]),
                ("ConnectTimeout", ["3", "2m", "1m30s", "1h", "none"]),
                ("ProxyJump", ["hop", "ann@hop:2201", "a,b@[2001:db8::1]:22", "none", "ssh://z@hop:99"]),
                ("ProxyCommand", ["nc %h %p", "none", "ssh -W %h:%p relay"]),
                ("UserKnownHostsFile", ["/k/a", "/k/a /k/b", "none"]),
                ("ServerAliveInterval", ["60"]),
                ("SendEnv", ["LANG LC_*"]),
                ("IgnoreUnknown", ["later*,bogus", "nothing"]),
                draw(st.sampled_from(SELDOM)),
            ]
        )
    )
    value = draw(st.sampled_from(values))
    if not set(value) & set(" \"'\\") and not keyword.startswith("Proxy"):
        value = draw(quoted).format(value)
    comment = "" if keyword.startswith("Proxy") else draw(st.sampled_from(["", "", " # words"]))
    return f"{draw(spelt(keyword))}{draw(gaps)}{value}{comment}"


@st.composite
def criterion(draw: st.DrawFn) -> str:
    negated = draw(st.sampled_from(["", "", "!"]))
    kind = draw(st.sampled_from(["host", "originalhost", "user", "localuser", "exec", "final", "canonical"]))
    word = negated + draw(spelt(kind))
    if kind in ("final", "canonical"):
        return word
    if kind == "exec":
        argument = draw(st.sampled_from(["true", "false", '"test %p = 22"', '"test %r = ann"', '"test %h = web1"']))
    elif kind in ("user", "localuser"):
        argument = ",".join(draw(st.lists(st.sampled_from(["ann", "!bert", "*", "r??t"]), min_size=1, max_size=3)))
    else:
        argument = ",".join(draw(st.lists(patterns, min_size=1, max_size=3)))
    return f"{word}{draw(gaps)}{argument}"


@st.composite
def block(draw: st.DrawFn) -> str:
    head = draw(st.sampled_from(["host", "host", "match", "match", "all", "none"]))
    if head == "host":
        first = f"{draw(spelt('Host'))}{draw(gaps)}{' '.join(draw(st.lists(patterns, min_size=1, max_size=3)))}"
    elif head == "match":
        first = f"{draw(spelt('Match'))} {' '.join(draw(st.lists(criterion(), min_size=1, max_size=3)))}"
    else:
        first = "Match all" if head == "all" else "# nothing"
    indent = draw(st.sampled_from(["", "  ", "\t"]))
    return "\n".join([first, *(indent + line for line in draw(st.lists(option(), max_size=4)))])


@st.composite
def configuration(draw: st.DrawFn) -> tuple[str, list[str]]:
    """The main file, with `@N@` where the Nth of the others is included."""
    others = draw(st.lists(st.lists(block(), min_size=1, max_size=2).map("\n".join), max_size=2))
    parts = draw(st.lists(block(), min_size=1, max_size=4))
    for index in range(len(others)):
        at = draw(st.integers(0, len(parts)))
        parts.insert(at, f"  {draw(spelt('Include'))} @{index}@")
    return "\n".join(parts) + "\n", others


@needs_ssh
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(configuration(), names, st.none() | users, st.none() | st.sampled_from([22, 2201]))
def test_any_configuration_means_what_ssh_makes_of_it(
    tmp_path: Path, made: tuple[str, list[str]], host: str, user: str | None, port: int | None
) -> None:
    text, others = made
    for index, other in enumerate(others):
        (tmp_path / f"other{index}").write_text(other)
        text = text.replace(f"@{index}@", str(tmp_path / f"other{index}"))
    compare(tmp_path, text, host, user, port)


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
    assert SSH is None or asked_of_ssh(file, "web1") is None


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
    import re

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


ODD = [
    *(f"{keyword} {value}\n" for keyword, values in SELDOM for value in values),
    "IgnoreUnknown Odd*\nOddOption x\n",
    "OddOption x\nIgnoreUnknown Odd*\n",
    "Host other\n  IgnoreUnknown Odd*\nHost *\n  OddOption x\n",
    "  User\tann  \t\r\n",
    '"User" ann\n',
    "User=ann\nPort == 5\n",
    "User ann#bert\n",
    "User 'ann'\nIdentityFile '/a b'\n",
    'Host "web1"\n  User ann\n',
    'Host web1 "x y" # z\n  User ann\n',
    "Host *,web1\n  User ann\n",
    "Host WEB1\n  User ann\n",
    "Host !web1 *\n  User ann\n",
    "Host * !web1\n  User ann\n",
    "Host !other\n  User ann\n",
    'Host ""\n  User ann\n',
    "Host #web1\n  User ann\n",
    "Match all # words\n  User ann\n",
    "Match !all\n  User ann\n",
    "Match all host web1\n  User ann\n",
    "Match host web1 all\n  User ann\n",
    "Match final all\n  User ann\n",
    "Match canonical final all\n  User ann\n",
    "Match user root user ann\n  User ann\n",
    "User ann\nMatch user ann\n  Port 2201\n",
    "Match host=web1 user=root\n  User ann\n",
    "Match host = web1\n  User ann\n",
    'Match host "web1"\n  User ann\n',
    'Match exec "test a = a"\n  User ann\n',
    'Match exec "exit 3" exec "touch /nowhere/at/all"\n  User ann\n',
    "Match exec %z\n  User ann\n",
    "Match host WEB1\n  User ann\n",
    "Match host web1, user *\n  User ann\n",
    "Match host !web1,*\n  User ann\n",
    "Match !host web1\n  User ann\n",
    "Match host\n  User ann\n",
    "Match\n",
    "HostName Other.Name\nMatch host other.name\n  User ann\n",
    "HostName other\nHost other\n  User ann\nMatch final host other\n  Port 2201\n",
    "Match final\n  User ann\nHost *\n  User bert\n",
    "Match final\n  HostName later\nMatch host later\n  User ann\n",
    "ProxyJump none\nProxyJump hop\n",
    "ProxyCommand none\nProxyJump hop\n",
    "ProxyJump hop # words\n",
    "ProxyCommand = nc %h %p # words\n",
    "UserKnownHostsFile /a\nUserKnownHostsFile /b\n",
    "IdentityFile /a\nIdentityFile /a\nIdentityFile ~/a\n",
    "Include /nowhere/at/all\nUser ann\n",
    "Include /nowhere/*/x /also/nowhere\nUser ann\n",
    "Include ''\nUser ann\n",
    "CanonicalizeHostname yes\nCanonicalDomains invalid\nMatch canonical\n  User ann\n",
    "CanonicalizeHostname yes\nCanonicalDomains invalid\nCanonicalizeFallbackLocal no\n",
    "CanonicalizeHostname perhaps\n",
    "CanonicalizeMaxDots x\n",
    "ConnectTimeout 0\nConnectTimeout 5\n",
    "Port 22 22\n",
    "\ufeffUser ann\n",
]


@needs_ssh
@pytest.mark.parametrize("host", ["web1", "192.0.2.7"])
@pytest.mark.parametrize("config", ODD)
def test_odd_lines_mean_what_ssh_makes_of_them(config: str, host: str, tmp_path: Path) -> None:
    compare(tmp_path, config, host)
