"""Which NCCL, and which net plugin, a program of the login would load. The dynamic loader is asked; nothing that it
finds is run. (The order is NCCL's own: 2.21 to 2.30.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path

from harness.facts.base import parser
from harness.facts.environment import TOOLKIT
from harness.facts.scripts import USERS_FILE, script

PLUGIN = "NCCL_NET_PLUGIN"
INNER = "R2CC_INNER_PLUGIN"
ENVIRONMENT = "the environment"
NO_FENCE = "has no r2ccFence_v1"

SET_IN_ENVIRONMENT = r"""
  sed -n 's/^\(NCCL_NET_PLUGIN\|LD_PRELOAD\|LD_LIBRARY_PATH\|R2CC_[A-Z0-9_]*\)=/the environment\t\1\t/p'
"""
OURS = r"""
ours() { grep -qs r2ccBuildId "$1" && printf 'ours\t\t%s\n' "$2"; }
"""
"""Both our libraries export that name; no other library does. ($1 is read, $2 is what it is called.)"""
SET_IN_FILE = r"""
# As NCCL reads it: nothing is cut off, and the first that sets a variable counts. ($1 is read, $2 is its name.)
set_in_file() {
  [ -r "$1" ] || return
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in NCCL_NET_PLUGIN=*|R2CC_[A-Z0-9_]*=*) ;; *) continue ;; esac
    printf '%s\t%s\t%s\n' "$2" "${line%%=*}" "${line#*=}"
    case $decided$line in NCCL_NET_PLUGIN=*) plugin=${line#*=}; decided=yes ;; esac
    case $inner$line in R2CC_INNER_PLUGIN=*) inner=${line#*=} ;; esac
  done <"$1"
}
"""
SHOWN = r"""sed "s/$(printf '\r')/\\\\r/g"
"""
"""Carriage returns, which count, are shown."""

LOADING = script(
    OURS
    + SET_IN_FILE
    + USERS_FILE
    + r"""
python=$(timeout 10 python3 -c 'import importlib.util as u, sys
found = u.find_spec("torch")
print(sys.executable)
print(found.submodule_search_locations[0] if found else "")' 2>/dev/null)
torch=$(printf '%s\n' "$python" | sed -n 2p)/lib
# LD_TRACE_LOADED_OBJECTS: glibc's loader lists what it would load, and runs none of it. Other loaders would run it, and
# so does a program without a loader: the first that answers is asked. Python comes first, as its run path counts.
lists=
for program in "$(printf '%s\n' "$python" | sed -n 1p)" "$(where env)" "$(where sh)"; do
  [ -f "$program" ] || continue
  LD_TRACE_LOADED_OBJECTS=1 "$program" </dev/null 2>/dev/null | grep -q '^[[:space:]].*/.* (0x' && lists=yes && break
done
[ -n "$lists" ] || { echo "no loader of glibc here, which NCCL needs" >&2; exit 1; }
{
env |"""
    + SET_IN_ENVIRONMENT
    + r"""
user_s=$(users_file)
plugin=${NCCL_NET_PLUGIN-libnccl-net.so}; decided=${NCCL_NET_PLUGIN+yes} inner=$R2CC_INNER_PLUGIN
for file in "$user_s" /etc/nccl.conf; do set_in_file "$file" "$file"; done
traced() { LD_TRACE_LOADED_OBJECTS=1 LD_PRELOAD=$1 "$program" </dev/null 2>/dev/null; }
# The loader splits LD_PRELOAD at spaces and colons: folders are given by their open files, 3 and 4.
file_of() {
  sed -n "s|^[[:space:]]*\(.* => \)\{0,1\}\([^[:space:]].*\) (0x[0-9a-f]*)\$|\2|p" | grep -- "/$1[^/]*\$" | head -n 1 |
    while IFS= read -r file; do
      case $file in
        /proc/self/fd/3/*) file=$torch/${file#/proc/self/fd/3/} ;;
        /proc/self/fd/4/*) file=$folder/${file#/proc/self/fd/4/} ;;
        /*) ;;
        *) file=$PWD/$file ;;
      esac
      printf '%s' "$file"
    done
}
# By the name that dlopen is given: the library's path, into `found`.
find_as() {
  by=$1 found=
  case $1 in
    */*)
      folder=$(cd "${1%/*}" 2>/dev/null && pwd) && exec 4<"$folder" || return
      by=/proc/self/fd/4/${1##*/} ;;
  esac
  found=$(traced "$by" | file_of "${1##*/}")
  [ -n "$found" ]
}
missing() { sed -n 's/^[[:space:]]*\(.*\) => not found$/\1/p'; }
nccl= asked=
for wants in libtorch_cuda.so libtorch.so libnccl.so.2; do
  by=$wants
  [ "$wants" = libnccl.so.2 ] || { [ -f "$torch/$wants" ] && exec 3<"$torch" && by=/proc/self/fd/3/$wants; } || continue
  listed=$(traced "$LD_PRELOAD $by")
  nccl=$(printf '%s\n' "$listed" | file_of libnccl.so)
  case $wants$listed in libtorch_cuda.so*libnccl*) ;; libtorch_cuda.so*) nccl=$torch/$wants ;; esac
  [ "$by" = "$wants" ] || wants=$torch/$wants
  [ -n "$nccl" ] && { asked=$by; printf 'nccl\t%s\t%s\n' "$wants" "$nccl"; ours "$nccl" "$nccl"; break; }
done
case $plugin in [nN][oO][nN][eE]) plugin= ;; esac
printf '%s' "$plugin" | tr ',' '\n' | while IFS= read -r name || [ -n "$name" ]; do
  [ -n "$name" ] || continue
  found= lacks=
  for wants in "$name" "libnccl-net-$name.so"; do
    find_as "$wants" || continue
    # What the program has loaded by then counts: torch's own libraries, those of LD_PRELOAD.
    lacks=$(traced "$LD_PRELOAD $asked $by" | missing | grep -Fx -e "$(traced "$by" | missing)" | head -n 1)
    break
  done
  if [ -z "$found" ]; then printf 'lost\t%s\tis not found\n' "$name"
  elif [ -n "$lacks" ]; then printf 'lost\t%s\tneeds %s, which the loader does not find\n' "$name" "$lacks"
  else printf 'net\t%s\t%s\n' "$name" "$found"; ours "$found" "$found"
  fi
done
[ -z "$inner" ] || {
  if ! find_as "$inner"; then why='is not found' found=$inner
  elif grep -qs R2CC_INNER_PLUGIN= "$found"; then why='is R2CC itself' # no other library speaks of it so
  elif ! grep -qs ncclNetPlugin_v11 "$found"; then why='has no ncclNetPlugin_v11'
  else why=; grep -qs r2ccFence_v1 "$found" || why='has no r2ccFence_v1'
  fi
  printf 'inner\t%s\t%s\n' "$why" "$found"
}
} | """
    + SHOWN,
)
OF_PROCESS = (
    OURS
    + SET_IN_FILE
    + r"""
root=/proc/$1/root
environment() { tr '\0' '\n' <"/proc/$1/environ"; }
set_in() { environment "$1" | sed -n "s/^$2=//p" | head -n 1; }
# The user as the process sees itself: in a container it may be another than we see.
user_of() {
  sed -n 's/^Uid:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$1/status" | {
    read -r seen
    while read -r inside outside count; do
      [ "$seen" -ge "$outside" ] && [ "$seen" -lt $((outside + count)) ] && echo $((inside + seen - outside)) && break
    done <"/proc/$1/uid_map"
  }
}
# Where NCCL looks: what the user's entry says, not $HOME.
home_of() {
  user=$(user_of "$1")
  [ -r "$root/etc/passwd" ] && while IFS=: read -r _ _ uid _ _ home _; do
    [ "$uid" = "$user" ] && printf '%s\n' "$home" && return
  done <"$root/etc/passwd"
  [ "$root/etc" -ef /etc ] && getent passwd "$user" 2>/dev/null | cut -d : -f 6 | grep . || set_in "$1" HOME
}
{
environment "$1" |"""
    + SET_IN_ENVIRONMENT
    + r"""
user_s=$(set_in "$1" NCCL_CONF_FILE)
[ -n "$user_s" ] || user_s=$(home_of "$1")/.nccl.conf
case $user_s in /*) set_in_file "$root$user_s" "$user_s" ;; *) set_in_file "/proc/$1/cwd/$user_s" "$user_s" ;; esac
set_in_file "$root/etc/nccl.conf" /etc/nccl.conf
while read -r range _ _ _ _ path; do
  file=${path% (deleted)}
  case ${file##*/} in
    libnccl.so*) kind=nccl ;;
    libnccl-net*.so*|libr2cc_net.so*) kind=net ;;
    *) continue ;;
  esac
  printf '%s\tmapped\t%s\n' "$kind" "$file"
  # What it has mapped, though it be in another mount namespace, or replaced since.
  ours "/proc/$1/map_files/$range" "$file" || { [ "$file" = "$path" ] && ours "/proc/$1/root$file" "$file"; }
done <"/proc/$1/maps" | sort -u
} | """
    + SHOWN
)
"""The same of a process that runs: its word is what it has mapped. Its files are those of its own root."""


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
    lost: tuple[tuple[str, str], ...] = ()
    """Net plugins that cannot be loaded: the name that is asked for, and why."""
    inner: tuple[str, str] | None = None
    """What R2CC_INNER_PLUGIN names: what it lacks, empty where R2CC can wrap its net, and its path. Only R2CC's net
    plugin reads it."""

    def setting(self, name: str) -> Setting | None:
        """The one that counts: the environment comes first, then the user's file, then /etc/nccl.conf."""
        return next((each for each in self.settings if each.name == name), None)

    @property
    def counting(self) -> tuple[Setting, ...]:
        """Of each variable the one that counts."""
        return tuple({each.name: each for each in reversed(self.settings)}.values())[::-1]

    @property
    def wanted(self) -> Setting | None:
        """What says that R2CC is meant to be in the path; None: nothing does."""
        return next((each for each in self.counting if _names_us(each)), None)

    @property
    def net(self) -> str:
        """The plugin that NCCL opens first; empty: it uses a net of its own."""
        return self.nets[0][1] if self.nets else ""

    @property
    def in_path(self) -> bool:
        return (self.net in self.ours and not self.bare) if self.net else self.nccl in self.ours

    @property
    def bare(self) -> bool:
        """R2CC's plugin passes another one's net through as it is."""
        return self.net in self.ours and self.inner is not None and self.inner[0] == NO_FENCE

    def where(self) -> str:
        """By what the loader comes to this NCCL."""
        preload = self.setting("LD_PRELOAD")
        named = map(normpath, preload.value.replace(":", " ").split()) if preload else ()
        if any(self.nccl == each or self.nccl.endswith(f"/{each}") for each in named):
            return "LD_PRELOAD"
        folders = self.setting("LD_LIBRARY_PATH")
        if folders and str(Path(self.nccl).parent) in map(normpath, folders.value.split(":")):
            return "LD_LIBRARY_PATH"
        if self.nccl == normpath(self.asked_by):
            return "its being linked into torch"
        if "torch" in self.asked_by:
            return "torch's run path" + (", a wheel" if "/nvidia/nccl/" in self.nccl else "")
        return "the loader's folders"


def _names_us(setting: Setting) -> bool:
    if setting.name.startswith("R2CC_"):
        return setting.name not in TOOLKIT
    return setting.name in (PLUGIN, "LD_PRELOAD") and "r2cc" in setting.value.lower()


@parser("the dynamic loader")
def loading(text: str) -> Loading:
    """Lines of three words between tabs; the last may hold tabs."""
    kinds: dict[str, list[Sequence[str]]] = {"nccl": [], "net": [], "lost": [], "inner": [], "ours": []}
    settings = []
    for line in filter(None, text.split("\n")):
        where, name, value = line.split("\t", 2)
        if where in kinds:
            kinds[where].append((name, value))
        else:
            settings.append(Setting(name, value, where))
    asked_by, nccl = kinds["nccl"][0] if kinds["nccl"] else ("", "")
    return Loading(
        tuple(settings),
        normpath(nccl) if nccl else "",
        asked_by,
        tuple((name, normpath(path)) for name, path in kinds["net"]),
        frozenset(normpath(path) for _, path in kinds["ours"]),
        tuple((name, why) for name, why in kinds["lost"]),
        next(((why, normpath(path)) for why, path in kinds["inner"]), None),
    )
