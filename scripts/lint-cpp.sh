#!/usr/bin/env bash
# The order of includes, then clang-format and clang-tidy from the lock, over our C++ (never over the fork's). Run by
# `make lint-cpp`, which builds first: clang-tidy needs the patched tree and the generated headers.
#
#   lint-cpp.sh            all but the tests          lint-cpp.sh all      the tests, too
#   lint-cpp.sh format     no clang-tidy              lint-cpp.sh changed  what differs from R2CC_CI_BASE, or from where
#                                                                          this branch left main, or the last commit
set -euo pipefail
cd "$(dirname "$0")/../r2cc_patches"
bin=../.venv/bin

"$bin/python" ../scripts/include_order.py .

mapfile -d '' -t all < <(find src agree bench faults nccl planner progress sim wire tests -name '*.cc' -print0 -o -name '*.h' -print0 | sort -z)
echo "clang-format: ${#all[@]} files"
"$bin/clang-format" --dry-run -Werror "${all[@]}"

[ "${1:-}" = format ] && exit 0

# The include folders that the build itself used, as it recorded them.
cuda=$(../.venv/bin/python -c 'import json; print(json.load(open("../build/net/build.json"))["inputs"]["cuda_include"])')
[ -d "$cuda/cccl" ] && extra=(-isystem "$cuda/cccl") || extra=()
tree=../nccl_fork/tree/src/include
flags=(-std=c++17 -DNCCL_OS_LINUX -pthread -Isrc -I. -isystem ../build/net/include -isystem "$tree"
  -Itests -isystem "$tree/plugin" -isystem "$tree/../transport/net_ib" -isystem "$cuda" "${extra[@]}")
# The tests take as long again as everything else: `lint-cpp.sh all` (nightly) looks at them too. The fuzzers are
# compiled by clang alone, with its own flags and headers.
# nccl and its tests see NCCL's private headers: g++ alone reads them, with all warnings as errors.
folders=(src agree bench faults planner progress sim wire)
[ "${1:-}" = all ] && folders+=(tests)
mapfile -d '' -t sources < <(find "${folders[@]}" -name '*.cc' -not -path 'tests/fuzz/*' -not -path 'tests/nccl/*' -print0 | sort -z)
if [ "${1:-}" = changed ]; then
  base=${R2CC_CI_BASE:-$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || true)}
  if [ -z "$base" ] || [ "$(git rev-parse "$base")" = "$(git rev-parse HEAD)" ]; then base=$(git rev-parse -q --verify HEAD~1 || echo HEAD); fi
  # A header is looked at through the file that has its name, or else through the first that includes it.
  mapfile -t changed < <(git diff --name-only --relative "$base" -- . | sort)
  chosen=()
  for file in "${changed[@]}"; do
    [ -f "$file" ] || continue
    case "$file" in
    *.cc) chosen+=("$file") ;;
    *.h)
      if [ -f "${file%.h}.cc" ]; then
        chosen+=("${file%.h}.cc")
      else
        chosen+=("$(grep -lF "/$(basename "$file")\"" "${sources[@]}" | head -1 || true)")
      fi
      ;;
    esac
  done
  mapfile -d '' -t sources < <(comm -z -12 <(printf '%s\0' "${sources[@]}" | sort -zu) <(printf '%s\0' "${chosen[@]}" | sort -zu))
fi
echo "clang-tidy: ${#sources[@]} files"
[ "${#sources[@]}" = 0 ] || printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -I FILE "$bin/clang-tidy" --quiet FILE -- "${flags[@]}"
