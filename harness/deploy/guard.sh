# Says what is on the way to a prefix, or in it, that somebody else could put there or change. Changes nothing.
# Before another script. strange PREFIX: one line a finding; nothing where all is ours or root's.
me=$(id -u)
root=$(stat -L -c %u /)
# The owner of / is root, also where a container calls it otherwise.
theirs() {
  uid=$(stat -c %u -- "$1") && [ "$uid" != "$me" ] && [ "$uid" != 0 ] && [ "$uid" != "$root" ]
}
about() {
  stat -L -c "$1 belongs to %U, group %G, mode %a: $2" -- "$1"
}
# A group that has the user's own name is the user's alone.
shared_group() {
  gid=$(stat -L -c %g -- "$1")
  [ "$gid" != 0 ] && { [ "$gid" != "$(id -g)" ] || [ "$(id -gn)" != "$(id -un)" ]; }
}
# STICKY is yes where nobody can remove what is another one's: in folders on the way, not in the prefix.
writable() {
  mode=$(stat -L -c %a -- "$1")
  case $2$mode in
    yes[1357]???) return 1 ;;
  esac
  case $mode in
    *[2367]) return 0 ;;
    *[2367]?) shared_group "$1" ;;
    *) return 1 ;;
  esac
}
folder() {
  if theirs "$1" || { uid=$(stat -L -c %u -- "$1") && [ "$uid" != "$me" ] && [ "$uid" != 0 ] && [ "$uid" != "$root" ]; }; then
    about "$1" "its owner can change what is deployed there"
  elif writable "$1" "$2"; then
    about "$1" "others can write there"
  fi
}
way() {
  at=$1
  sticky=
  while :; do
    [ ! -d "${at:-/}" ] || folder "${at:-/}" "$sticky"
    [ -n "$at" ] || break
    at=${at%/*}
    sticky=yes
  done
}
inside() {
  for name in objects builds incoming owner owner.new deploy.lock switch.lock; do
    [ ! -L "$1/$name" ] || echo "$1/$name is a link, which deploy never makes: remove it"
  done
  for path in "$1"/objects "$1"/builds "$1"/incoming "$1"/owner* "$1"/*.lock "$1"/objects/* "$1"/builds/* "$1"/current "$1"/previous; do
    if { [ -e "$path" ] || [ -L "$path" ]; } && theirs "$path"; then
      about "$path" "it is not ours"
    fi
  done
  for path in "$1"/objects/* "$1"/builds/*; do
    [ ! -L "$path" ] || echo "$path is a link, which deploy never makes: remove it"
  done
}
strange() {
  {
    way "$1"
    near=$1
    while [ -n "$near" ] && [ ! -d "$near" ]; do
      near=${near%/*}
    done
    real=$(cd -P -- "${near:-/}" && pwd -P) && [ "$real" = "$near" ] || way "${real%/}"
    [ ! -d "$1" ] || inside "$1"
  } | head -n 5
}
