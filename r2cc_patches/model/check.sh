#!/usr/bin/env bash
# check.sh NAME [DIR]: lets Spin search the model as configs.txt says for NAME. Prints one line of figures.
# Exit 0: holds. 1: violated, and the shortest story it found is printed. 3: the search could not be done or finished.
set -uo pipefail
name=$1
out=${2:-../../build/model}/$name
cd "$(dirname "$0")" || exit 3
read -r kind _ flags < <(grep -E "^[a-z]+ +$name( |$)" configs.txt)
[ -n "${kind:-}" ] || { echo "error: configs.txt has no $name" >&2; exit 3; }
for program in spin gcc; do
  command -v "$program" >/dev/null || { echo "error: $program is not installed" >&2; exit 3; }
done
model=failover # unless the first flag says MODEL=another
[[ $flags =~ ^MODEL=([a-z]+)\ *(.*)$ ]] && { model=${BASH_REMATCH[1]} flags=${BASH_REMATCH[2]}; }
read -r -a defines <<<"$flags"
pan=(-m100000)
search=(-DSAFETY)
optimize=-O1
case $kind in
  *lives) search=(-DNP) pan+=(-l) ;;
  mistake) defines+=("-D$name") optimize=-O0 ;;
esac

mkdir -p "$out" && cp ./*.pml "$out" && cd "$out" || exit 3
rm -f "$model.pml.trail"
spin "${defines[@]}" -a "$model.pml" >spin.log 2>&1 || { cat spin.log >&2; exit 3; }
gcc "$optimize" -w -DNOREDUCE -DMEMLIM="${R2CC_MODEL_MB:-6000}" "${search[@]}" -o pan pan.c || exit 3
timeout "${R2CC_MODEL_LIMIT_S:-900}" ./pan "${pan[@]}" >pan.log 2>&1 || { echo "error: $name: out of time" >&2; exit 3; }

states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' pan.log)
mb=$(sed -nE 's/^ *([0-9.]+).*total actual memory usage.*/\1/p' pan.log)
seconds=$(sed -nE 's/^pan: elapsed time ([0-9.]+).*/\1/p' pan.log)
errors=$(sed -nE 's/.*errors: ([0-9]+)$/\1/p' pan.log)
[ -n "$errors" ] || { tail -5 pan.log >&2; exit 3; }
echo "$name: $states states, ${seconds} s, ${mb} MB, errors: $errors"
if [ "$errors" != 0 ]; then
  grep -m1 '^pan:1:' pan.log
  spin "${defines[@]}" -t -B "$model.pml" | grep -E '^ *[CSRW]  ' | sed -E 's/^ +//'
  exit 1
fi
if grep -qE 'not completed|search depth too small|MEMLIM|out of memory' pan.log; then
  echo "error: $name: the search was not finished" >&2
  exit 3
fi
