#!/usr/bin/env bash
# Makes .venv with the locked packages and R2CC itself in it: `scripts/setup.sh runtime` or `dev` (which has the tools of
# the tests and of lint too). What is set up already is left alone, without any network access.
set -euo pipefail
# Ctrl-C is for this script alone: programs that it ends on the way give wrong answers, and Python says so in ten lines.
long=
trap 'trap "" INT; [ -z "$long" ] || kill "$long" 2>/dev/null || true; echo "set-up: interrupted" >&2; exit 130' INT
quick() { (trap "" INT; exec "$@"); }            # what ends soon by itself
run() { "$@" & long=$!; wait "$long"; long=; }   # what is ended: in the background it does not hear of Ctrl-C
cd "$(dirname "$0")/.." && cd "$(pwd -P)"
level=${1:-runtime}
case $level in
  runtime) lock=requirements.lock ;;
  dev) lock=requirements-dev.lock ;;
  *) echo "usage: $0 runtime|dev" >&2; exit 2 ;;
esac

bash scripts/system-packages.sh
mkdir -p .cache/locks
exec 9>.cache/locks/setup.lock
flock -n 9 || { echo "waiting for another set-up to finish ..." >&2; flock 9; }

# A virtual environment cannot be moved, and goes with its Python.
usable() { grep -qF -- "-m venv $PWD/.venv" .venv/pyvenv.cfg && quick .venv/bin/python -c 'import pip'; }
stamp=.venv/.r2cc-$level
key=$({ quick .venv/bin/python -VV; cat "$lock" pyproject.toml; } 2>/dev/null | sha256sum)

if usable 2>/dev/null; then
  [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && exit 0
else
  rm -rf .venv
  echo "making .venv ..." >&2
  run python3 -m venv .venv
  key=$({ quick .venv/bin/python -VV; cat "$lock" pyproject.toml; } | sha256sum)
fi
echo "installing the packages of $lock ..." >&2
pip=(.venv/bin/python -m pip --disable-pip-version-check --no-input)
# The lock names every package: without --no-deps, pip 23 goes after the newest of one that is asked for with an extra.
run "${pip[@]}" install --quiet --require-hashes --no-deps --requirement "$lock"
PYTHONWARNINGS=ignore run "${pip[@]}" install --quiet --no-deps --no-build-isolation --editable .
rm -rf r2cc.egg-info # of some older build: Python would read its entry points first
misfits=$(quick "${pip[@]}" check) || {
  echo "$misfits" >&2
  echo "the packages of .venv do not fit together: remove .venv and try again" >&2
  echo "(after a change of pyproject.toml, run scripts/lock.sh)" >&2
  exit 2
}
echo "$key" >"$stamp"
