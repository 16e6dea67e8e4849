# One object from the input. It appears with all its bytes or not at all.
# receive.sh PREFIX SHA256 SIZE gzip|plain
set -eu
umask 022
cd -- "$1"
part=incoming/$2.$$
trap 'rm -f -- "$part"' EXIT
trap 'exit 1' HUP INT TERM
case $4 in
  gzip) gzip -dc >"$part" ;;
  *) cat >"$part" ;;
esac
[ "$(wc -c <"$part")" -eq "$3" ] || { echo "only a part of it arrived" >&2; exit 1; }
chmod 0555 "$part"
sync "$part" 2>/dev/null || sync
mv -fT -- "$part" "objects/$2"
