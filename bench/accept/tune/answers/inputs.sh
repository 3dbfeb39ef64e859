#!/usr/bin/env bash
# Makes every input of the thirty programs, always the same ones.
set -euo pipefail

usage() {
    cat <<'HELP'
usage: inputs.sh DIR

Makes in DIR (about 500 MiB, 1-2 minutes on two cores):
  heavy.cpp       the translation unit beside this script
  mixed.bin       14 MiB of text, repeats, counters and noise (xz at its default level)
  text.txt        80 MiB of log-like lines in no order (sort)
  text.gz         the same, gzip -6 without name and time (pipeline)
  text-8m.txt     its first 8 MiB (mawk, gzip)
  records.json    40 MiB, one array of records (jq, json.tool), records-4m.json of 4 MiB
  *.sql *.py      beside this script
  unit.c units.c  C of 900 and of 7,200 functions, lib.rs   Rust of 400
  link.rsp        120 objects of 900 functions each with debug information (g++ as linker)
  history/        git repository of 2,500 commits, by git fast-import
What a missing tool would make is left out and named on a line that starts with SKIP.
A finished DIR is recognised by its file `complete` and left as it is.
HELP
}

case "${1:-}" in
    -h | --help) usage; exit 0 ;;
    '') usage >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
[ -e complete ] && exit 0
for tool in cc as gzip awk python3; do
    command -v "$tool" >/dev/null || { echo "inputs.sh: $tool is needed (apt: gcc binutils gzip mawk python3)" >&2; exit 2; }
done
export LC_ALL=C PATH="/usr/bin:/bin:$PATH"

cp "$here"/*.cpp "$here"/*.sql "$here"/*.py .
cc -O2 -o generate "$here/generate.c"
./generate mixed 14680064 >mixed.bin
./generate text 83886080 >text.txt
head -c 8388608 text.txt >text-8m.txt
./generate json 41943040 >records.json
./generate json 4194304 >records-4m.json
gzip -6 -n -c text.txt >text.gz

make_unit() {
    awk -v unit="$1" -v units=120 -v functions=900 'BEGIN {
        for (f = 0; f < functions; f++) {
            printf "struct r%d_%d { long a; double b; char name[%d]; };\n", unit, f, f % 40 + 8
            printf "long shared_function_with_a_long_name_%d_%d(void *at, long x) {\n  struct r%d_%d *r = at;\n", unit, f, unit, f
            other = (unit * 7 + f) % units
            printf "  extern long shared_function_with_a_long_name_%d_%d(void *, long);\n", other, (f * 31) % functions
            if (other != unit)
                printf "  if (x > %d) return shared_function_with_a_long_name_%d_%d(0, x - 1);\n", f, other, (f * 31) % functions
            printf "  return r ? r->a + x : (long)\"text %d of unit %d\"[x & 7];\n}\n", f, unit
        }
        if (unit == 0) print "int main(void) { return 0; }"
    }'
}
make_object() {
    make_unit "$1" >"unit$1.c"
    cc -g -O0 -ffunction-sections -w -c "unit$1.c" -o "unit$1.o"
    rm "unit$1.c"
}
export -f make_unit make_object
seq 0 119 | xargs -P "$(nproc)" -I{} bash -c 'make_object {}'
seq -f 'unit%.0f.o' 0 119 >link.rsp
make_unit 1 >unit.c
for unit in $(seq 1 8); do make_unit "$unit"; done >units.c
awk 'BEGIN {
    print "#![crate_type = \"lib\"]\nuse std::collections::BTreeMap;"
    for (f = 0; f < 400; f++)
        printf "pub fn f%d(m: &mut BTreeMap<u32, String>, x: u32) -> usize { m.insert(x %% %d, format!(\"{x} {}\", %d)); m.values().map(|s| s.len()).sum() }\n", f, f + 1, f
}' >lib.rs

if command -v git >/dev/null; then
    rm -rf history
    git init -q history
    python3 "$here/history.py" 2500 | git -C history -c core.autocrlf=false fast-import --quiet
    git -C history symbolic-ref HEAD refs/heads/main
else
    echo "SKIP log: no git (apt: git)"
fi
rm -f generate
touch complete
