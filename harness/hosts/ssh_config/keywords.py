"""Every keyword that `ssh` knows, and how the values of those that we use are read."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable

from harness.hosts.ssh_config.patterns import in_list

DEFAULT_PORT = 22
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
JUMP = re.compile(r"(?:(?P<user>[^\s,]+)@)?(?P<host>\[[^\]\s]+\]|[^:@\s,]+)(?::(?P<port>\d{1,5}))?")


def text(value: str) -> str:
    if not value:
        raise ValueError("it is empty")
    return value


def port(value: str) -> str:
    """A number, or a service's name."""
    try:
        number = int(value) if value.isdecimal() else socket.getservbyname(value, "tcp")
    except OSError:
        number = 0
    if not 0 < number < 65536:
        raise ValueError(f"'{value}' is no port")
    return str(number)


def seconds(value: str) -> str:
    """`90`, `2m`, `1h30m`; `none` is no limit."""
    if value.lower() == "none":
        return "none"
    if not re.fullmatch(r"(\d+[smhdw]?)+", value, re.IGNORECASE | re.ASCII):
        raise ValueError(f"'{value}' is no time")
    parts = re.findall(r"(\d+)([smhdw]?)", value.lower())
    return str(sum(int(count) * SECONDS[unit] for count, unit in parts))


def number(value: str) -> str:
    if not re.fullmatch(r"\d{1,9}", value):
        raise ValueError(f"'{value}' is no number")
    return str(int(value))


def flag(value: str) -> str:
    return _one_of(value, {"yes": "yes", "true": "yes", "no": "no", "false": "no"})


def canonicalize(value: str) -> str:
    return _one_of(value, {"yes": "yes", "true": "yes", "no": "no", "false": "no", "always": "always"})


def _one_of(value: str, meanings: dict[str, str]) -> str:
    if value.lower() not in meanings:
        raise ValueError(f"'{value}' is none of {', '.join(meanings)}")
    return meanings[value.lower()]


def is_hop(value: str) -> bool:
    found = JUMP.fullmatch(value)
    return found is not None and (found["port"] is None or 0 < int(found["port"]) < 65536)


def jumps(value: str) -> str:
    """`[user@]host[:port]` or `ssh://` of it, several with commas; as it is written, without `ssh://`."""
    bare = value.partition("#")[0].strip()
    if bare.lower() == "none":
        return "none"
    hops = [re.sub(r"^ssh://([^/]*)/?$", r"\1", hop) for hop in bare.split(",")]
    wrong = [hop for hop in hops if not is_hop(hop)]
    if wrong:
        raise ValueError(f"jump '{wrong[0]}' is no host: write it as [user@]host[:port]")
    return ",".join(hops)


ONE: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("hostname", "user", "hostkeyalias", "identityagent", "tag"), text),
    **dict.fromkeys(("identitiesonly", "canonicalizefallbacklocal", "proxyusefdpass"), flag),
    **{"port": port, "connecttimeout": seconds, "canonicalizehostname": canonicalize, "canonicalizemaxdots": number},
}
"""One word each. The first value that counts for a host is its value."""
MANY = ("userknownhostsfile", "globalknownhostsfile", "canonicaldomains")
"""Several words on one line; the first line counts."""
IDENTITY, COMMAND, JUMPS = "identityfile", "proxycommand", "proxyjump"

NAMES = """
    addkeystoagent addressfamily afstokenpassing batchmode bindaddress bindinterface canonicaldomains
    canonicalizefallbacklocal canonicalizehostname canonicalizemaxdots canonicalizepermittedcnames casignaturealgorithms
    certificatefile challengeresponseauthentication channeltimeout checkhostip cipher ciphers clearallforwardings
    compression compressionlevel connectionattempts connecttimeout controlmaster controlpath controlpersist
    dsaauthentication dynamicforward enableescapecommandline enablesshkeysign escapechar exitonforwardfailure
    fallbacktorsh fingerprinthash forkafterauthentication forwardagent forwardx11 forwardx11timeout forwardx11trusted
    gatewayports globalknownhostsfile globalknownhostsfile2 gssapiauthentication gssapiclientidentity
    gssapidelegatecredentials gssapikexalgorithms gssapikeyexchange gssapirenewalforcesrekey gssapiserveridentity
    gssapitrustdns hashknownhosts host hostbasedacceptedalgorithms hostbasedacceptedkeytypes
    hostbasedauthentication hostbasedkeytypes
    hostkeyalgorithms hostkeyalias hostname identitiesonly identityagent identityfile identityfile2 ignoreunknown
    include ipqos kbdinteractiveauthentication kbdinteractivedevices keepalive kerberosauthentication kerberostgtpassing
    kexalgorithms knownhostscommand localcommand localforward loglevel logverbose macs match
    nohostauthenticationforlocalhost numberofpasswordprompts obscurekeystroketiming passwordauthentication
    permitlocalcommand permitremoteopen pkcs11provider port preferredauthentications protocol protocolkeepalives
    proxycommand proxyjump proxyusefdpass pubkeyacceptedalgorithms pubkeyacceptedkeytypes pubkeyauthentication
    refuseconnection rekeylimit remotecommand remoteforward requesttty requiredrsasize revokedhostkeys
    rhostsauthentication rhostsrsaauthentication rsaauthentication rsaminsize securitykeyprovider sendenv
    serveralivecountmax serveraliveinterval sessiontype setenv setuptimeout skeyauthentication smartcarddevice
    stdinnull streamlocalbindmask streamlocalbindunlink stricthostkeychecking syslogfacility tag tcpkeepalive
    tisauthentication tunnel tunneldevice updatehostkeys useblacklistedkeys useprivilegedport user
    userknownhostsfile userknownhostsfile2 useroaming usersh versionaddendum verifyhostkeydns visualhostkey
    warnweakcrypto xauthlocation
"""
KNOWN = frozenset(NAMES.split())
"""Those of OpenSSH up to 10 and of distributions' patches, the ones that it passes over included."""
APPLE = "usekeychain"
"""Known to `ssh` on macOS alone."""


def known(keyword: str, ignored: str) -> bool:
    """Whether `ssh` takes it on this machine; `ignored` is the list that IgnoreUnknown gave."""
    return keyword in KNOWN or (keyword == APPLE and sys.platform == "darwin") or in_list(keyword, ignored.lower())
