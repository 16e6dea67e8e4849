
# One attempt, under the lock. The timer's comes too early when the deadline was moved while it waited for the lock.
attempt() {
  {
    flock 9
    [ -e undone ] && return 0
    [ "$1" != timer ] || over || return 0
    # Whole, or not there: others look at it without the lock.
    if undo 9>&-; then date "+$1 at %Y-%m-%dT%H:%M:%S%z" >undone.new; mv -f undone.new undone; else return 1; fi
  } 9>>lock
}

# Whether the time to live is over. `left`: how long to sleep, in seconds, never long: a suspended machine sleeps longer.
over() {
  IFS= read -r deadline <deadline || exit 0
  IFS=' ' read -r now _ </proc/uptime; now=${now%.*}${now#*.}; now=${now#0}; now=${now#0}; now=${now:-0}
  left=$((deadline - now))
  [ "$left" -gt 0 ] || return 0
  if [ "$left" -gt 500 ]; then left=5; else left=$((left / 100)).$((left % 100 / 10))$((left % 10)); fi
  return 1
}

watch() {
  trap '' HUP INT
  exec >>log 2>&1
  echo $$ >pid.new && mv pid.new pid
  tries=0
  until [ -e undone ]; do
    if ! over; then sleep "$left" 2>/dev/null || sleep 1; continue; fi
    if ! attempt timer; then
      tries=$((tries + 1))
      [ $tries -lt 90 ] || { : >failed; exit 1; }
      if [ $tries -lt 60 ]; then sleep 1; else sleep 60; fi
    fi
  done
}

cd "$(dirname "$0")" || exit 1
if [ "${1:-}" = watch ]; then watch; else attempt "${1:-hand}"; fi
exit
# end
