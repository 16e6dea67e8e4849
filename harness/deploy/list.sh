# What lies under a prefix. Changes nothing. list.sh PREFIX
set -u
case $1 in
  "~/"*) prefix=$HOME/${1#??} ;;
  *) prefix=$1 ;;
esac
prefix=${prefix%/}
echo "prefix=$prefix"
cd -- "$prefix" 2>/dev/null || exit 0
for name in current previous; do
  [ ! -L "$name" ] || echo "$name=$(readlink "$name")"
done
flock -n deploy.lock true 2>/dev/null || [ ! -e owner ] || echo "owner=$(sed -n 2p owner)"
for name in $(ls -1t builds 2>/dev/null); do
  echo "build=$name $(stat -c %Y "builds/$name") $(du -sk "builds/$name" | sed 's/[^0-9].*//')"
done
exit 0
