# Makes a build of objects that are here, verifies all of it, then switches to it.
# The manifest comes on the input. install.sh PREFIX BUILD TOKEN
set -eu
umask 022
cd -- "$1"
build=builds/$2
exec 8>>switch.lock
flock -w 60 8 || { echo "another deploy is switching" >&2; exit 6; }
[ "$(sed -n 1p owner 2>/dev/null || :)" = "$3" ] || { echo "the lock was lost meanwhile" >&2; exit 7; }
cat >incoming/manifest
sed 's/^\([0-9a-f]*\)  .*/\1  \1/' incoming/manifest >incoming/all
sort -u incoming/all >incoming/check
(cd objects && LC_ALL=C sha256sum -c --quiet ../incoming/check >&2) || { echo "checksums differ" >&2; exit 5; }
at=$build
if [ ! -d "$build" ]; then
  at=incoming/build
  rm -rf -- "$at"
  mkdir -- "$at"
fi
while IFS= read -r line; do
  object=objects/${line%%  *}
  path=$at/${line#*  }
  [ "$path" -ef "$object" ] && continue
  mkdir -p -- "${path%/*}"
  rm -f -- incoming/link
  ln -- "$object" incoming/link
  mv -fT -- incoming/link "$path"
done <incoming/manifest
mv -fT -- incoming/manifest "$at/manifest"
[ "$at" = "$build" ] || mv -T -- "$at" "$build"
touch -c -- "$build"
sync "$build/manifest" "$build" builds 2>/dev/null || sync
was=$(readlink current 2>/dev/null || :)
if [ "$was" != "$build" ]; then
  rm -f -- incoming/current incoming/previous
  if [ -n "$was" ] && [ -d "$was" ]; then
    ln -s -- "$was" incoming/previous
    mv -fT -- incoming/previous previous
  fi
  ln -s -- "$build" incoming/current
  mv -fT -- incoming/current current
fi
[ "$(readlink current)" = "$build" ] || { echo "current could not be switched" >&2; exit 1; }
echo "was=$was"
