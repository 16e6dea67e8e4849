# Runs as root in an agent's pod, one on each node of Kubernetes: it sees the node's processes and networks. What is armed
# lies in the node's /run/r2cc; timers, which end with an agent, are begun again by the next one. An agent that is told to
# end undoes everything first. No argument.
set -u
PATH="$PATH:/usr/sbin:/sbin"; export PATH
for tool in flock setsid timeout nsenter find ip tc nft; do
  command -v $tool >/dev/null || { echo "r2cc agent: there is no $tool in this image" >&2; exit 1; }
done
umask 022; mkdir -p /run/r2cc; umask 077
case $(ls -ld /run/r2cc) in d????-??-*) ;; *) echo "r2cc agent: others may write to /run/r2cc of this node" >&2; exit 1 ;; esac

# Runs a command in network $1, a number. When nobody has that network any more, nothing in it can be undone.
within() {
  number=$1; shift
  net=$(find /proc -mindepth 3 -maxdepth 3 -path '*/ns/net' -lname "net:\\[$number\\]" -print -quit 2>/dev/null)
  [ -n "$net" ] || return 3
  nsenter --net="$net" -- "$@"
}

is_timer() { [ -n "$1" ] && case $(tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null) in *"$2/undo.sh watch "*) ;; *) false ;; esac; }

# Calls $1 with each record that waits to be undone: its folder, and the number of its network.
each() {
  for folder in /run/r2cc/*/armed/*/; do
    folder=${folder%/}
    [ -e "$folder/undo.sh" ] && [ ! -e "$folder/undone" ] || continue
    net=${folder#/run/r2cc/}; "$1" "$folder" "${net%%/*}"
  done
}

# A record whose timer is gone gets a new one. Not at once: whoever arms starts the first.
resume() {
  [ -e "$1/failed" ] && return
  is_timer "$(cat "$1/pid" 2>/dev/null)" "$1" && return
  [ -n "$(find "$1" -maxdepth 0 -not -newermt '-5 seconds' 2>/dev/null)" ] || return
  echo "r2cc agent: $1 has no timer any more: a new one begins"
  within "$2" setsid "$(command -v sh)" "$1/undo.sh" watch </dev/null >>"$1/log" 2>&1 &
}

undo() {
  within "$2" sh "$1/undo.sh" agent && { echo "r2cc agent: $1 is undone"; return; }
  code=$?
  echo "r2cc agent: $1: exit code $code" >&2
  [ $code = 3 ] || failed=1
}

# What fails is tried again for a minute: the process by which its network was found may have ended just then.
finish() {
  tries=0
  while :; do
    failed=0; each undo
    [ $failed = 1 ] || exit 0
    tries=$((tries + 1)); [ $tries -lt 60 ] || exit 1
    sleep 1
  done
}

trap finish TERM INT
echo "r2cc agent: ready"
while :; do
  each resume
  sleep 2 & wait $!
done
# end
