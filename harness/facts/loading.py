"""Which NCCL, and which net plugin, a program of the login would load. The dynamic loader is asked; nothing that it
finds is run. (The order is NCCL's own: 2.21 to 2.30.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path

from harness.facts.base import parser
from harness.facts.scripts import script

PLUGIN = "NCCL_NET_PLUGIN"
ENVIRONMENT = "the environment"

_OURS = r"""
ours() { case $2 in /*) grep -qs r2ccBuildId "$2" && printf 'ours\t%s\n' "$2" ;; esac; }
"""
"""Both our libraries export that name; no other library does."""

LOADING = script(
    _OURS
    + r"""
env | sed -n 's/^\(NCCL_NET_PLUGIN\|LD_PRELOAD\|LD_LIBRARY_PATH\|R2CC_[A-Z0-9_]*\)=/the environment\t\1\t/p'
conf=${NCCL_CONF_FILE:-$HOME/.nccl.conf}
for file in "$conf" /etc/nccl.conf; do
  [ -r "$file" ] && sed -n "s#^\(NCCL_NET_PLUGIN\|R2CC_[A-Z0-9_]*\)=#$file\t\1\t#p" "$file"
done
# LD_TRACE_LOADED_OBJECTS: the loader lists what it would load, and runs none of it.
traced() { LD_TRACE_LOADED_OBJECTS=1 LD_PRELOAD=$1 "$(where env)" 2>/dev/null; }
file_of() {
  sed -n "s|^[[:space:]]*\($1[^[:space:]]* => \)\{0,1\}\(/[^[:space:]]*\) (0x.*|\2|p" | grep -- "/[^/]*$1" | head -n 1
}
torch=$(timeout 10 python3 -c 'import importlib.util as u
found = u.find_spec("torch")
print(found.submodule_search_locations[0] if found else "")' 2>/dev/null)
nccl=
for wants in "${torch:+$torch/lib/libtorch_cuda.so}" "${torch:+$torch/lib/libtorch.so}" libnccl.so.2; do
  [ -n "$wants" ] || continue
  nccl=$(traced "$LD_PRELOAD $wants" | file_of libnccl.so)
  [ -n "$nccl" ] && { printf 'nccl\t%s\t%s\n' "$wants" "$nccl"; break; }
done
ours nccl "$nccl"
plugin=$NCCL_NET_PLUGIN
for file in "$conf" /etc/nccl.conf; do
  [ -z "$plugin" ] && [ -r "$file" ] && plugin=$(sed -n 's/^NCCL_NET_PLUGIN=//p' "$file" | head -n 1)
done
printf '%s' "${plugin:-libnccl-net.so}" | tr ',' '\n' | while IFS= read -r name || [ -n "$name" ]; do
  case $name in [nN][oO][nN][eE]) continue ;; esac
  for wants in "$name" "libnccl-net-$name.so"; do
    found=$(traced "$wants" | file_of "${wants##*/}")
    [ -n "$found" ] && { printf 'net\t%s\t%s\n' "$name" "$found"; ours net "$found"; break; }
  done
done
""",
)
OF_PROCESS = (
    _OURS
    + r"""
tr '\0' '\n' <"/proc/$1/environ" |
  sed -n 's/^\(NCCL_NET_PLUGIN\|LD_PRELOAD\|LD_LIBRARY_PATH\|R2CC_[A-Z0-9_]*\)=/the environment\t\1\t/p'
sed -n 's#.* \(/.*/lib\(nccl\|r2cc\)[^/]*\.so[.0-9]*\)$#\1#p' "/proc/$1/maps" | sort -u | while IFS= read -r file; do
  case ${file##*/} in
    libnccl.so*) printf 'nccl\tmapped\t%s\n' "$file" ;;
    libnccl-net*|libr2cc_net*) printf 'net\tmapped\t%s\n' "$file" ;;
  esac
  ours file "$file"
done
"""
)
"""The same of a process that runs: its word is what it has mapped."""


@dataclass(frozen=True)
class Setting:
    """A variable, and where it is set: the environment, or a file that NCCL reads."""

    name: str
    value: str
    where: str


@dataclass(frozen=True)
class Loading:
    """What would be loaded, or is."""

    settings: tuple[Setting, ...] = ()
    nccl: str = ""
    """The library's path; empty: none was found."""
    asked_by: str = ""
    """What needs it: torch's library, or its own name where nothing does."""
    nets: tuple[tuple[str, str], ...] = ()
    """Net plugins that the loader finds, in NCCL's order: the name that is asked for, its path."""
    ours: frozenset[str] = frozenset()
    """Which of these paths are R2CC's."""

    def setting(self, name: str) -> Setting | None:
        """The one that counts: the environment comes first, then the user's file, then /etc/nccl.conf."""
        return next((each for each in self.settings if each.name == name), None)

    @property
    def wanted(self) -> Setting | None:
        """What says that R2CC is meant to be in the path; None: nothing does."""
        return next((each for each in self.settings if _names_us(each)), None)

    @property
    def net(self) -> str:
        """The plugin that NCCL opens first; empty: it uses a net of its own."""
        return self.nets[0][1] if self.nets else ""

    @property
    def in_path(self) -> bool:
        return self.net in self.ours if self.net else self.nccl in self.ours

    def where(self) -> str:
        """By what the loader comes to this NCCL."""
        preload = self.setting("LD_PRELOAD")
        if preload and self.nccl in preload.value.replace(":", " ").split():
            return "LD_PRELOAD"
        folders = self.setting("LD_LIBRARY_PATH")
        if folders and str(Path(self.nccl).parent) in map(normpath, folders.value.split(":")):
            return "LD_LIBRARY_PATH"
        if "torch" in self.asked_by:
            return "torch's run path" + (", a wheel" if "/nvidia/nccl/" in self.nccl else "")
        return "the loader's folders"


def _names_us(setting: Setting) -> bool:
    if setting.name.startswith("R2CC_"):
        return True
    return setting.name in (PLUGIN, "LD_PRELOAD") and "r2cc" in setting.value.lower()


@parser("the dynamic loader")
def loading(text: str) -> Loading:
    """Lines of three words between tabs; two where a path is R2CC's."""
    rows = [line.split("\t") for line in text.splitlines() if line.strip()]
    kinds: dict[str, list[Sequence[str]]] = {"nccl": [], "net": [], "ours": []}
    settings = []
    for row in rows:
        if row[0] in kinds:
            kinds[row[0]].append(row)
        else:
            where, name, value = row
            settings.append(Setting(name, value, where))
    nccl = kinds["nccl"][0] if kinds["nccl"] else ("", "", "")
    return Loading(
        tuple(settings),
        normpath(nccl[2]) if nccl[2] else "",
        nccl[1],
        tuple((row[1], normpath(row[2])) for row in kinds["net"]),
        frozenset(normpath(row[1]) for row in kinds["ours"]),
    )
