# What a host is, and what lies under the prefix. Changes nothing. After guard.sh.
# facts.sh PREFIX TOOL...
set -u
case $1 in
  "~/"*) prefix=$HOME/${1#??} ;;
  *) prefix=$1 ;;
esac
prefix=${prefix%/}
shift
echo "prefix=$prefix"
for tool in "$@"; do
  command -v "$tool" >/dev/null 2>&1 || echo "missing=$tool"
done
command -v gzip >/dev/null 2>&1 && echo "gzip=yes"
echo "system=$(uname -s)"
echo "machine=$(uname -m)"
echo "glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1)"
libraries=$(ldconfig -p 2>/dev/null | sed -n 's/^[[:space:]]*libstdc++\.so\.6 .*=> //p')
[ -n "$libraries" ] || libraries=$(ls /usr/lib/*/libstdc++.so.6 /usr/lib64/libstdc++.so.6 /usr/lib/libstdc++.so.6 2>/dev/null)
printf '%s\n' "$libraries" | while IFS= read -r library; do
  [ -f "$library" ] || continue
  echo "library=$library"
  LC_ALL=C tr -cs 'A-Za-z0-9_.' '\n' <"$library" | grep -E '^(GLIBCXX|CXXABI)_[0-9]' | sort -u | sed 's/^/version=/'
done
where=$prefix
while [ -n "$where" ] && [ ! -e "$where" ]; do
  where=${where%/*}
done
[ -n "$where" ] || where=/
[ -d "$where" ] && [ -w "$where" ] || echo "unwritable=$where"
strange "$prefix" | sed 's/^/unsafe=/'
echo "free=$(df -Pk -- "$where" 2>/dev/null | tail -n 1)"
for name in current previous; do
  if [ -L "$prefix/$name" ]; then
    echo "$name=$(readlink -- "$prefix/$name")"
  elif [ -e "$prefix/$name" ]; then
    echo "foreign=$prefix/$name"
  fi
done
echo "built=$(od -An -tu2 -j18 -N2 "$prefix/current/lib/libr2cc_net.so" 2>/dev/null)"
exit 0
