#!/usr/bin/env bash
# Re-creates the hash-locked requirements from pyproject.toml and nccl_fork/cuda-headers.in. Needs the network.
# No index address is written: a site's own mirror, if any, comes from its pip configuration.
#   scripts/lock.sh            keep what is locked where it still satisfies pyproject.toml
#   scripts/lock.sh --upgrade  take the newest that satisfies it
set -euo pipefail
cd "$(dirname "$0")/.."

compile() {
  .venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options "$@"
}

compile --build-deps-for editable --output-file requirements.lock "$@" pyproject.toml
compile --build-deps-for editable --extra dev --constraint requirements.lock \
  --output-file requirements-dev.lock "$@" pyproject.toml
compile --output-file requirements-cuda.lock "$@" nccl_fork/cuda-headers.in
rm -rf r2cc.egg-info # pip-compile leaves it: Python would go by its entry points, and they grow old
