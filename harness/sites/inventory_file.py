"""An inventory file: which hosts there are and how they are reached. All its mistakes are reported at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr

from harness.config import documents
from harness.config.documents import Document
from harness.config.fitting import fitted
from harness.config.kinds import INVENTORY
from harness.config.words import in_order
from harness.errors import InputErrors, UsageError
from harness.hosts.pods.target import PodTarget
from harness.hosts.ssh.options import Config, SshConfigError, users_config
from harness.hosts.ssh.target import Asked, Target, expanded, is_hop, resolve_all
from harness.schemas.form import form
from harness.sites.ranges import expand

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
ADDRESS = re.compile(r"[A-Za-z0-9:][A-Za-z0-9._:%-]{0,252}")
PREFIX = re.compile(r"~?(/[^/\x00-\x1f]+)+/?")
DEFAULT_PREFIX = "~/.r2cc"
"""Where a host keeps what is deployed to it (docs/howto/deploy.md). `~` is the home there."""
OF_SSH = ("user", "port", "key", "jump", "known_hosts")
NO_KEY = "there is no key"
KEY_HINT = "ls ~/.ssh; without a key, those of ~/.ssh/config and of the agent are tried"
MOST_HOSTS = 16_384
TOO_MANY = f"there are more than {MOST_HOSTS} hosts, which is the most"
Location = tuple[str | int, ...]


def _names(pattern: re.Pattern[str]) -> AfterValidator:
    def check(text: str) -> str:
        wrong = [name for name in expand(text) if not pattern.fullmatch(name)]
        if wrong:
            raise ValueError(f"'{wrong[0]}' cannot be a name")
        return text

    return AfterValidator(check)


def _jumps(text: str) -> str:
    wrong = [part for part in text.split(",") if not is_hop(part.strip())]
    if wrong:
        raise ValueError(f"'{wrong[0]}' is no host: write it as [user@]host[:port]")
    return text


def _prefix(text: str) -> str:
    if not PREFIX.fullmatch(text):
        raise ValueError(f"'{text}' is no folder: write it as /opt/r2cc or ~/.r2cc")
    return text


Word = Annotated[StrictStr, Field(pattern=r"^[^\s\x00-]\S*$", max_length=1024)]
Jump = Annotated[StrictStr, AfterValidator(_jumps)]
Prefix = Annotated[StrictStr, AfterValidator(_prefix)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Reached(_Model):
    """How hosts are reached and what is in them; what is not said comes from `~/.ssh/config`."""

    user: Word | None = None
    port: Annotated[StrictInt, Field(ge=1, le=65535)] | None = None
    key: Word | None = None
    jump: Jump | None = None
    known_hosts: Word | None = None
    nics: dict[Word, Annotated[StrictStr, _names(NAME)]] | None = None
    """By role: `data: eth[0-3]`, `management: eno1`."""
    gpus: Annotated[StrictInt, Field(ge=0, le=64)] | None = None
    labels: dict[Word, StrictStr] = {}
    prefix: Prefix | None = None


class Entry(Reached):
    """One host, or a range of them. `address` is a range of the same length."""

    name: Annotated[StrictStr, _names(NAME)]
    address: Annotated[StrictStr, _names(ADDRESS)] | None = None


class Pods(_Model):
    """Where the pods are that an inventory's hosts are: `address`, or else `name`, is the name of a pod."""

    namespace: Word = "default"
    container: Word | None = None
    context: Word | None = None
    """Of the kubeconfig."""
    agents: Word | None = None
    """The namespace of the agents that break NICs (`r2cc k8s render agent`)."""


@form("inventory", "An inventory file")
class Cluster(_Model):
    """An inventory file. What `defaults` says holds for every host that does not say it itself."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = "cluster"
    pods: Pods | None = None
    """Hosts are pods, reached by `kubectl exec`; without it they are reached over SSH."""
    defaults: Reached = Reached()
    hosts: Annotated[list[Entry], Field(min_length=1)]


@form("inventory_made", "r2cc inventory from-cloudlab")
class InventoryMade(_Model):
    """An inventory that we made."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    name: str
    defaults: Reached
    hosts: Annotated[list[Entry], Field(min_length=1)]
    resolved: bool
    """NICs by their names in Linux, not by addresses"""


@dataclass(frozen=True)
class ClusterHost:
    """One host of an inventory."""

    target: Target | PodTarget
    nics: Mapping[str, tuple[str, ...]]
    gpus: int | None
    labels: Mapping[str, str]
    prefix: str = DEFAULT_PREFIX

    @property
    def name(self) -> str:
        return self.target.name


def load(path: Path, *, config: Path | None = None, home: Path | None = None) -> list[ClusterHost]:
    """The hosts of an inventory file, in its order. InputErrors with all mistakes; UsageError: it cannot be read.
    `config` is read in place of the user's configuration of ssh and the system's."""
    home = home or Path.home()
    return _read(documents.load(path, INVENTORY), partial(_config, config, home), home)


def load_usable(
    path: Path, *, config: Path | None = None, home: Path | None = None
) -> tuple[list[ClusterHost], dict[str, InputErrors]]:
    """(hosts without a mistake, what is wrong with the others by name): for what must not wait until a file is mended.

    InputErrors and UsageError as `load`, when no host of it can be used.
    """
    home, document = home or Path.home(), documents.load(path, INVENTORY)
    usable: dict[str, ClusterHost] = {}
    wrong: dict[str, InputErrors] = {}
    options = cache(partial(_config, config, home))
    for name, alone in _one_by_one(document):
        try:
            usable.update({host.name: host for host in _read(alone, options, home) if host.name not in usable})
        except InputErrors as error:
            wrong[name] = error
        except SshConfigError as error:
            wrong[name] = InputErrors([error.message])
    if not usable:
        _read(document, options, home)
    return [*usable.values()], {name: error for name, error in wrong.items() if name not in usable}


def _one_by_one(document: Document) -> Iterator[tuple[str, Document]]:
    """Each host's name, and the same file with it alone."""
    found = document.value.get("hosts") if isinstance(document.value, dict) else None
    for index, entry in enumerate(found if isinstance(found, list) else []):
        for name, one in _single(entry):
            yield name or f"the host of line {document.line(('hosts', index))}", document.with_one("hosts", index, one)


def _single(entry: object) -> list[tuple[str, object]]:
    """(name, entry) of each host of a range; one that cannot be taken apart stays as it is."""
    if not isinstance(entry, dict):
        return [("", entry)]
    names = _expanded_or_none(entry.get("name"))
    addresses = _expanded_or_none(entry["address"]) if entry.get("address") else names
    if len(names) != len(addresses):
        return [(name, entry) for name in names or [""]]
    return [(n, {**entry, "name": n, "address": a}) for n, a in zip(names, addresses, strict=True)] or [("", entry)]


def parse(text: str, file: str, *, config: Path | None, home: Path) -> list[ClusterHost]:
    """The hosts that YAML text describes; `file` is only what the messages call it."""
    return _read(documents.parse(text, file, INVENTORY), partial(_config, config, home), home)


def _config(config: Path | None, home: Path) -> Config:
    return Config(config, home) if config is not None else users_config(home)


def _read(document: Document, options_of: Callable[[], Config], home: Path) -> list[ClusterHost]:
    errors, cluster = [*document.errors], None
    errors += [document.message(place, what) for place, what in _cross_errors(document.value, home)]
    if errors and TOO_MANY in errors[-1]:
        raise InputErrors(in_order(errors, document.file))  # to check them all would take minutes
    if not document.unreadable:
        cluster = fitted(Cluster, document.value, lambda place, text: errors.append(document.said(place, text)))
    hosts: list[ClusterHost] = []
    if cluster is not None and cluster.pods is not None and not errors:
        hosts = [host(target) for entry in cluster.hosts for host, target in _pods(cluster, cluster.pods, entry)]
    elif cluster is not None and not errors:
        each = [(index, *pair) for index, entry in enumerate(cluster.hosts) for pair in _asked(cluster, entry)]
        targets = resolve_all([asked for *_, asked in each], options_of())
        for (index, host, _), target in zip(each, targets, strict=True):
            if isinstance(target, SshConfigError):
                raise target
            if isinstance(target, UsageError):
                errors.append(document.message(("hosts", index), f"{target.message} ({target.hint})"))
            else:
                hosts.append(host(target))
    if errors:
        raise InputErrors(in_order(errors, document.file), KEY_HINT if any(NO_KEY in each for each in errors) else None)
    return hosts


def _asked(cluster: Cluster, entry: Entry) -> Iterator[tuple[Callable[[Target | PodTarget], ClusterHost], Asked]]:
    """What is said of each host of an entry, and what makes one of it when its target is known."""
    said = {key: value for key, value in entry.model_dump().items() if value is not None}
    every = {**{key: value for key, value in cluster.defaults.model_dump().items() if value is not None}, **said}
    names = expand(entry.name)
    about = {
        "nics": {role: tuple(expand(text)) for role, text in every.get("nics", {}).items()},
        "gpus": every.get("gpus"),
        "labels": {**cluster.defaults.labels, **entry.labels},
        "prefix": every.get("prefix", DEFAULT_PREFIX),
    }
    ways = {key: every.get(key) for key in OF_SSH}
    for name, address in zip(names, expand(entry.address) if entry.address else names, strict=True):
        yield partial(ClusterHost, **about), Asked(name, address, **ways)


def _pods(cluster: Cluster, pods: Pods, entry: Entry) -> Iterator[tuple[Callable[[PodTarget], ClusterHost], PodTarget]]:
    for host, asked in _asked(cluster, entry):
        where = (pods.namespace, pods.container or "", pods.context or "", pods.agents or "")
        yield host, PodTarget(asked.name, asked.address or asked.name, *where)


def _cross_errors(value: object, home: Path) -> Iterator[tuple[Location, str]]:
    """Mistakes between keys, and SSH keys that are not there; in the raw value, to be told next to all others."""
    if not isinstance(value, dict):
        return
    found = value.get("hosts")
    entries = [(index, entry) for index, entry in enumerate(found if isinstance(found, list) else [])]
    places: list[tuple[Location, Any]] = [(("defaults",), value.get("defaults"))]
    seen: set[str] = set()
    for place, entry in places + [(("hosts", index), entry) for index, entry in entries]:
        if not isinstance(entry, dict):
            continue
        names, addresses = _expanded_or_none(entry.get("name")), _expanded_or_none(entry.get("address"))
        for name in names:
            if name in seen:
                yield (*place, "name"), f"host '{name}' is there twice"
            seen.add(name)
        if len(seen) > MOST_HOSTS:
            yield (*place, "name"), TOO_MANY
            return
        if names and addresses and len(addresses) != len(names):
            yield (*place, "address"), f"'{entry['address']}' means {len(addresses)} addresses for {len(names)} hosts"
        for word in OF_SSH if value.get("pods") is not None else ():
            if entry.get(word) is not None:
                yield (*place, word), f"'{word}' is for SSH, and the hosts of this file are pods"
        key = entry.get("key")
        if isinstance(key, str) and key and not expanded(key, home).is_file():
            yield (*place, "key"), f"{NO_KEY} {key}"
        roles = entry.get("nics")
        nics = [nic for text in (roles.values() if isinstance(roles, dict) else ()) for nic in _expanded_or_none(text)]
        for nic in sorted({nic for nic in nics if nics.count(nic) > 1}):
            yield (*place, "nics"), f"NIC '{nic}' is there twice"


def _expanded_or_none(text: object) -> list[str]:
    """Empty for what is reported elsewhere as no range."""
    try:
        return expand(text) if isinstance(text, str) else []
    except ValueError:
        return []
