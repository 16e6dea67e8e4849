# Waits until a host that shares its prefix with another one sees what that one has switched to.
# follow.sh PREFIX BUILD
cd -- "$1" || exit 1
tries=0
until [ "$(readlink current)" = "builds/$2" ] && [ -e current/manifest ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 70 ] || { echo "it does not see the new build" >&2; exit 1; }
  sleep 1
  ls -la . builds >/dev/null
done
