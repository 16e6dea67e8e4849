#!/bin/sh
# Fills the placeholders of nccl.h.in (stdin) from NCCL's version.mk (first argument), as NCCL's own build does.
set -eu
value() { sed -n "s/^$2 *:= *//p" "$1" | tr -d ' '; }
major=$(value "$1" NCCL_MAJOR)
minor=$(value "$1" NCCL_MINOR)
patch=$(value "$1" NCCL_PATCH)
suffix=$(value "$1" NCCL_SUFFIX)
sed -e "s/\${nccl:Major}/$major/g" -e "s/\${nccl:Minor}/$minor/g" -e "s/\${nccl:Patch}/$patch/g" \
  -e "s/\${nccl:Suffix}/$suffix/g" -e "s/\${nccl:Version}/$((major * 10000 + minor * 100 + patch))/g"
