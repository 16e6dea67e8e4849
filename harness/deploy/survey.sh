# Which of the objects named on the input lie here whole. Changes nothing.
# survey.sh PREFIX
cd -- "$1/objects" 2>/dev/null || exit 0
sed 's/.*/&  &/' | LC_ALL=C sha256sum -c 2>/dev/null | sed -n 's/: OK$//p'
exit 0
