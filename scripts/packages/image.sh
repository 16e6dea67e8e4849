#!/usr/bin/env bash
# `make image`: the image `r2cc` of what `make packages` left in dist/, and of Python packages as they are locked, which pip
# brings into dist/image. `image.sh [CPU]`; BUILDER is the command that builds, BASE another base than Debian's.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
machine=${1:-$(uname -m)}
case $machine in
  x86_64) debian=amd64 ;;
  aarch64) debian=arm64 ;;
  *) echo "no image is made for a CPU of kind $machine" >&2; exit 2 ;;
esac
if [ -z "${BUILDER:-}" ]; then
  for tool in "buildah bud" "podman build" "docker build"; do
    if command -v "${tool%% *}" >/dev/null; then BUILDER="$tool --platform linux/$debian"; break; fi
  done
  [ "${BUILDER:-}" ] || { echo "nothing here builds images: install buildah, podman or docker" >&2; exit 2; }
fi

rm -rf dist/image
mkdir -p dist/image
cp "dist/r2cc-net_${version}_$debian.deb" "dist/r2cc-$version"-py3-none-manylinux_*_"$machine".whl dist/image
# What Debian 12 can run: Python 3.11, and libraries that need no newer glibc than 2.36.
platforms=()
for glibc in {5..36}; do platforms+=(--platform "manylinux_2_${glibc}_$machine"); done
.venv/bin/python -m pip download --quiet --no-deps --require-hashes --only-binary=:all: --python-version 3.11 \
  --platform "manylinux2014_$machine" "${platforms[@]}" --dest dist/image --requirement requirements.lock

read -ra builder <<<"$BUILDER"
"${builder[@]}" ${BASE:+--build-arg "BASE=$BASE"} -t localhost/r2cc -f scripts/packages/Containerfile .
