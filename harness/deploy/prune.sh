# Removes builds beyond the KEEP newest, never the current or the previous one; then what no build is made of.
# prune.sh PREFIX KEEP TOKEN
set -eu
cd -- "$1"
exec 8>>switch.lock
flock -w 60 8 || { echo "another deploy is switching" >&2; exit 6; }
[ "$(sed -n 1p owner 2>/dev/null || :)" = "$3" ] || { echo "the lock was lost meanwhile" >&2; exit 7; }
current=$(readlink current || :)
previous=$(readlink previous || :)
count=0
for name in $(ls -1t builds); do
  count=$((count + 1))
  [ "$count" -gt "$2" ] || continue
  case builds/$name in
    "$current"|"$previous") continue ;;
  esac
  mv -T -- "builds/$name" "incoming/gone-$count"
  rm -rf -- "incoming/gone-$count"
  echo "removed=$name"
done
cat builds/*/manifest >incoming/manifests
sed 's/  .*//' incoming/manifests >incoming/all
sort -u incoming/all >incoming/used
ls -1 objects | sort | comm -23 - incoming/used | while IFS= read -r name; do
  rm -f -- "objects/$name"
done
