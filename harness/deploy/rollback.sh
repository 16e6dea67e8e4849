# Goes back to the previous build, after it was verified; the current one becomes the previous one.
# rollback.sh PREFIX TOKEN
set -eu
umask 022
cd -- "$1"
exec 8>>switch.lock
flock -w 60 8 || { echo "another deploy is switching" >&2; exit 6; }
[ "$(sed -n 1p owner 2>/dev/null || :)" = "$2" ] || { echo "the lock was lost meanwhile" >&2; exit 7; }
current=$(readlink current || :)
previous=$(readlink previous || :)
if [ -z "$previous" ] || [ "$previous" = "$current" ] || [ ! -e "$previous/manifest" ]; then
  echo "there is no previous build" >&2
  exit 4
fi
(cd -- "$previous" && LC_ALL=C sha256sum -c --quiet manifest >&2) || { echo "checksums differ" >&2; exit 5; }
rm -f -- incoming/current incoming/previous
ln -s -- "$previous" incoming/current
if [ -n "$current" ] && [ -d "$current" ]; then
  ln -s -- "$current" incoming/previous
fi
mv -fT -- incoming/current current
[ ! -L incoming/previous ] || mv -fT -- incoming/previous previous
echo "was=$current"
echo "now=$previous"
