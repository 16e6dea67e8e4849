# What runs on a host, in POSIX sh with coreutils and util-linux (flock, setsid). Words are arguments, never text of this
# script. Times are hundredths of a second of /proc/uptime, which no change of the clock touches.
# r2cc arm ID TTL | renew ID TTL | disarm ID | list | undo ID BY | inject ID ARGV... | revert ID ARGV...
set -u
PATH="$PATH:/usr/sbin:/sbin"; export PATH
mask=$(umask); umask 077

die() { echo "$*" >&2; exit 1; }

# One folder a network namespace: hosts of a lab share their machine's /run, but never each other's faults.
net() { net=$(readlink "/proc/$1/ns/net" 2>/dev/null) || return 1; net=${net#*[}; net=${net%]}; }
net self || die "cannot read /proc/self/ns/net"
state=/run/r2cc/$net
[ "$(id -u)" = 0 ] || state=$HOME/.r2cc/run/$(cat /proc/sys/kernel/random/boot_id)/$net
armed=$state/armed
# Root runs what lies there: nobody else may have put it there.
if [ "$(id -u)" = 0 ] && [ -e /run/r2cc ]; then
  case $(ls -ld /run/r2cc) in d????-??-*) [ -O /run/r2cc ] ;; *) false ;; esac ||
    die "others may write to /run/r2cc: make it root's (chown root /run/r2cc; chmod 755 /run/r2cc)"
fi

clock() { IFS=' ' read -r now _ </proc/uptime; now=${now%.*}${now#*.}; now=${now#0}; now=${now#0}; now=${now:-0}; }

# Whether process $1 is the timer of the record in folder $2.
is_timer() { [ -n "$1" ] && case $(tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null) in *"$2/undo.sh watch "*) ;; *) false ;; esac; }

# PID 1 is systemd, and we are in its network: a unit would run in another namespace otherwise.
systemd() {
  [ -d /run/systemd/system ] && [ "$(id -u)" = 0 ] && [ "$(readlink /proc/1/ns/net)" = "$(readlink /proc/self/ns/net)" ]
}

start_systemd() {
  systemd-run --quiet --collect --unit="r2cc-undo-$1" --on-active="$(($2 * 10))ms" --timer-property=AccuracySec=10ms \
    --setenv=PATH="$PATH" /bin/sh "$armed/$1/undo.sh" watch >&2 &&
    systemctl is-active --quiet "r2cc-undo-$1.timer"
}

start_shell() {
  if [ "$(id -u)" != 0 ] && grep -qsi '^ *KillUserProcesses *= *\(yes\|true\|on\|1\)' /etc/systemd/logind.conf /etc/systemd/logind.conf.d/*.conf; then
    die "systemd-logind ends what a user started when he logs out (KillUserProcesses=yes): log in as root"
  fi
  # By its path: busybox's setsid would take a shell of its own, which takes commands of its own.
  setsid "$(command -v sh)" "$armed/$1/undo.sh" watch </dev/null >>"$armed/$1/log" 2>&1 &
  tries=0
  while ! { pid=$(cat "$armed/$1/pid" 2>/dev/null) && is_timer "$pid" "$armed/$1"; }; do
    tries=$((tries + 1)); [ $tries -lt 100 ] || return 1
    sleep 0.02 2>/dev/null || sleep 1
  done
}

deadline() { clock; echo "$((now + $2))" >"$1/deadline.new" && mv "$1/deadline.new" "$1/deadline"; }

do_arm() {
  for tool in flock setsid timeout; do command -v $tool >/dev/null || die "there is no $tool (coreutils, util-linux)"; done
  new=$armed/.new-$1
  mkdir -p "$armed" && mkdir "$new" && cat >"$new/undo.sh" || die "cannot write $new"
  [ "$(tail -n 1 "$new/undo.sh")" = "# end" ] || { rm -rf "$new"; die "the undo came cut short"; }
  deadline "$new" "$2" && mv "$new" "$armed/$1" || die "cannot write $armed/$1"
  if systemd; then kind=systemd; else kind=shell; fi
  echo "$kind" >"$armed/$1/kind"
  "start_$kind" "$1" "$2" || { stop "$1"; rm -rf "${armed:?}/$1"; die "the timer ($kind) does not start"; }
  echo "armed $kind"
}

do_renew() {
  cd "$armed/$1" 2>/dev/null || { echo gone; return; }
  { flock -w 10 9 || die "the undo is running"; if [ -e undone ]; then echo fired; else deadline . "$2" && echo renewed; fi; } 9>>lock
}

# Ends the timer and proves that it has ended. The lock is held: it is not in the middle of undoing.
stop() {
  if [ "$(cat "$armed/$1/kind" 2>/dev/null)" = systemd ]; then
    systemctl stop "r2cc-undo-$1.timer" "r2cc-undo-$1.service" 2>/dev/null
    ! systemctl is-active --quiet "r2cc-undo-$1.timer" && ! systemctl is-active --quiet "r2cc-undo-$1.service"
    return
  fi
  pid=$(cat "$armed/$1/pid" 2>/dev/null) || pid=
  is_timer "$pid" "$armed/$1" || return 0
  kill -s KILL -- "-$pid" 2>/dev/null || kill -s KILL "-$pid" 2>/dev/null
  tries=0
  while is_timer "$pid" "$armed/$1"; do
    tries=$((tries + 1)); [ $tries -lt 100 ] || return 1
    sleep 0.02 2>/dev/null || sleep 1
  done
}

do_disarm() {
  [ -d "$armed/$1" ] || { rm -rf "$armed/.new-$1"; echo gone; return; }
  {
    flock -w 10 9 || die "the undo is running"
    stop "$1" || die "the timer does not end"
    if [ -e "$armed/$1/undone" ]; then echo "fired $(cat "$armed/$1/undone")"; else echo disarmed; fi
    rm -rf "${armed:?}/$1"
  } 9>>"$armed/$1/lock"
}

do_list() {
  clock
  for folder in "$armed"/*/; do
    folder=${folder%/}
    [ -e "$folder/undo.sh" ] || continue
    word=armed; [ -e "$folder/failed" ] && word=failed; [ -e "$folder/undone" ] && word=undone
    echo "record ${folder##*/} $word $(($(cat "$folder/deadline") - now)) $(cat "$folder/kind" 2>/dev/null || echo none)"
    sed -n 's/^# about: //p;3q' "$folder/undo.sh"
    echo "undone $(cat "$folder/undone" 2>/dev/null)"
  done
  echo end
}

do_undo() {
  [ -d "$armed/$1" ] || { echo gone; return; }
  "$(command -v sh)" "$armed/$1/undo.sh" "$2" && echo undone
}

# The controller's own commands, under the same lock as the timer's; what they leave running does not hold it.
do_inject() {
  lock=$armed/$1/lock; shift
  [ -d "${lock%/*}" ] && command exec 9>>"$lock" && flock -w 4 9 || die "it is not armed any more"
  [ ! -e "${lock%/*}/undone" ] || die "it is not armed any more"
  umask "$mask"; "$@" 9>&-
}

do_revert() {
  lock=$armed/$1/lock; shift
  if [ -d "${lock%/*}" ] && command exec 9>>"$lock"; then flock -w 4 9 || die "the undo is running"; fi
  umask "$mask"; "$@" 9>&-
}

word=$1; shift
"do_$word" "$@"
