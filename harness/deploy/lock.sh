# Holds the lock of a prefix as long as its input brings a line at least every LIMIT seconds.
# Whoever is killed, or loses its network, loses the lock: the kernel drops it with this process.
# After guard.sh: who may write here could have us write elsewhere.
# lock.sh PREFIX TOKEN LIMIT OWNER HOST
set -eu
umask 022
cd /
prefix=$1
token=$2
mkdir -p -- "$prefix"
said=$(strange "$prefix")
[ -z "$said" ] || { printf '%s\n' "$said" >&2; exit 1; }
mkdir -p -- "$prefix/objects" "$prefix/builds"
cd -- "$prefix"
exec 9>>deploy.lock
tries=0
until flock -n 9; do
  if [ "$(sed -n 1p owner 2>/dev/null || :)" = "$token" ]; then
    echo "shared $(sed -n 3p owner)"
    exit 0
  fi
  tries=$((tries + 1))
  if [ "$tries" -ge 10 ]; then
    echo "held $(sed -n 2p owner 2>/dev/null || :)"
    exit 0
  fi
  sleep 0.1
done
exec 8>>switch.lock
flock -w 60 8 || { echo "another deploy is switching" >&2; exit 1; }
printf '%s\n%s\n%s\n' "$token" "$4" "$5" >owner.new
mv -f -- owner.new owner
rm -rf -- incoming
mkdir incoming
: >incoming/probe
ln -- incoming/probe builds/.probe-$$ || { echo "$prefix has no hard links" >&2; rm -rf incoming; exit 1; }
rm -f -- builds/.probe-*
flock -u 8
echo mine
while line=$(timeout "$3" head -n 1 8>&- 9>&-) && [ -n "$line" ]; do
  :
done
flock -w 600 8
if [ "$(sed -n 1p owner)" = "$token" ]; then
  rm -rf -- owner incoming
fi
