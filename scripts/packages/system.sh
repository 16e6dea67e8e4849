#!/usr/bin/env bash
# `make packages`: the net plugin for a whole machine, as .deb, as .rpm where rpmbuild is, and the symbols aside, in dist/.
# Needs what `make wheel` left in build/net/release, or build/net-CPU/release: `system.sh [--without-symbols] [CPU]`.
# Without symbols it saves the time that they take.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=scripts/packages
release=build/net/release
symbols=yes
for word; do
  case $word in
    --without-symbols) symbols= ;;
    "$(uname -m)") ;;
    *) release=build/net-$word/release ;;
  esac
done
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p dist

case $(od -An -tu2 -j18 -N2 "$release/libr2cc_net.so" | tr -d ' ') in
  62) machine=x86_64 debian=amd64 triplet=x86_64-linux-gnu ;;
  183) machine=aarch64 debian=arm64 triplet=aarch64-linux-gnu ;;
  *) echo "no package is made for this CPU" >&2; exit 2 ;;
esac

# The same files in both; NCCL takes the plugin by path, and as NCCL_NET_PLUGIN=r2cc.
files() { # ROOT LIBDIR DOCDIR
  install -d "$1$2" "$1$3/examples"
  install -m 0755 "$release"/libr2cc_{net,progress,faults}.so "$1$2"
  ln -s libr2cc_net.so "$1$2/libnccl-net-r2cc.so"
  install -m 0644 "$here/nccl.conf" "$1$3/examples/nccl.conf"
  { printf 'R2CC is under the Apache License 2.0. NCCL'"'"'s transports, which are in it, are NVIDIA'"'"'s:\n\n'
    cat nccl_fork/tree/LICENSE.txt; printf '\n\n'; cat LICENSE; } >"$1$3/copyright"
  install -m 0644 CHANGELOG.md "$1$3/CHANGELOG.md"
}

deb=$scratch/deb
files "$deb" "/usr/lib/$triplet" /usr/share/doc/r2cc-net
install -d "$deb/DEBIAN"
cat >"$deb/DEBIAN/control" <<END
Package: r2cc-net
Version: $version
Architecture: $debian
Maintainer: R2CC <r2cc@localhost>
Installed-Size: $(du -sk "$deb/usr" | cut -f1)
Depends: libc6 (>= 2.31), libgcc-s1 (>= 4.2)
Section: libs
Priority: optional
Description: net plugin that keeps NCCL's collectives running through NIC failures
 NCCL loads it with NCCL_NET_PLUGIN=r2cc. Nothing else on the machine changes:
 a job that does not ask for it runs as before.
END
echo "activate-noawait ldconfig" >"$deb/DEBIAN/triggers"
dpkg-deb --root-owner-group -Zxz --build "$deb" "dist/r2cc-net_${version}_$debian.deb" >/dev/null
echo "dist/r2cc-net_${version}_$debian.deb"

if command -v rpmbuild >/dev/null; then
  files "$scratch/rpm" /usr/lib64 /usr/share/doc/r2cc-net
  rpmbuild -bb --quiet --target "$machine" --define "_topdir $scratch/top" --define "r2cc_version $version" \
    --define "r2cc_files $scratch/rpm" "$here/r2cc-net.spec"
  mv -f "$scratch/top/RPMS/$machine"/r2cc-net-*.rpm dist/
  ls dist/r2cc-net-"$version"-*."$machine".rpm
else
  echo "no .rpm: rpmbuild is not installed (Debian's package rpm)" >&2
fi

[ "$symbols" ] || exit 0
tar -C "$release" --owner=0 --group=0 -cJf "dist/r2cc-$version-$machine-symbols.tar.xz" debug
echo "dist/r2cc-$version-$machine-symbols.tar.xz"
