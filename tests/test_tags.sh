#!/bin/sh
# test_tags.sh - what must be true of the headers as texts: tags, line lengths, macros and symbols that leak
# SPDX-License-Identifier: MIT
#
# From the environment: CC (default cc), BUILD (scratch folder, default build/test), HEADER (default
# ckconv.h); its parts, if they lie beside HEADER, are looked at too.

name=test_tags
CC=${CC:-cc}
BUILD=${BUILD:-build/test}
HEADER=${HEADER:-ckconv.h}
# a file stands behind the one that includes it
parts="ckconv.cpu.h ckconv.gpu.h kernels.hip.h kernels.matrix.hip.h kernels.direct.hip.h kernels.norm.hip.h"
dir=$BUILD/tags
passed=0
failed=0

mkdir -p "$dir" || exit 1

# check TEXT FILE: passes when FILE is empty; its first lines say what is wrong
check() {
    if [ -s "$2" ]; then
        failed=$((failed + 1))
        echo "FAIL $1"
        sed -n '1,8s/^/    /p' "$2"
    else
        passed=$((passed + 1))
    fi
}

# Tags that the top comment announces: a table of two columns, read down the left one, then down the right
# one. A tag in running text ("see >>types") is no entry: entries begin a column.
tags_listed() {
    awk '
        /^TAGS/ { on = 1; next }
        on && /\*\// { exit }
        on {
            line = $0
            start = 1
            while (match(line, /(^|  )[ ]*>>[a-z0-9-]+/)) {
                text = substr(line, RSTART, RLENGTH)
                column = start + RSTART + index(text, ">") - 1
                sub(/^[ ]*>>/, "", text)
                if (column < 30) { left[++l] = text } else { right[++r] = text }
                start += RSTART + RLENGTH - 1
                line = substr(line, RSTART + RLENGTH)
            }
        }
        END {
            for (i = 1; i <= l; i++) { print left[i] }
            for (i = 1; i <= r; i++) { print right[i] }
        }' "$1"
}

# Tags that open a section: alone at the start of a line below a rule line, after the top comment.
tags_found() {
    awk '
        !top { if (/\*\//) { if (seen) { top = 1 } }; if (/^TAGS/) { seen = 1 }; next }
        /^[ ]*(\/\/|\/\*|\*)?[ ]*>>[a-z0-9-]+/ {
            text = $0
            sub(/^[^>]*>>/, "", text)
            sub(/[^a-z0-9-].*$/, "", text)
            print text
        }' "$1"
}

rules_missing() {
    awk '
        !top { if (/\*\//) { if (seen) { top = 1 } }; if (/^TAGS/) { seen = 1 }; next }
        /^[ ]*(\/\/|\/\*|\*)?[ ]*>>[a-z0-9-]+/ && before !~ /^(\/\*|\/\/)-+/ {
            print FNR ": no rule line above: " $0
        }
        { before = $0 }' "$1"
}

narrow() {
    awk 'length($0) > 110 { print FILENAME ":" FNR ": " length($0) " columns" }' "$@"
}

text_rules() {
    file=$1
    narrow "$file" >"$dir/out"
    check "$file: lines of 110 columns at most" "$dir/out"
    LC_ALL=C awk '/[^ -~]/ { print FNR ": " $0 }' "$file" >"$dir/out"
    check "$file: ASCII without tabs" "$dir/out"
    awk '/[ ]$/ { print FNR ": " $0 }' "$file" >"$dir/out"
    check "$file: no blanks at the end of a line" "$dir/out"
    awk '/TODO|FIXME|XXX|HACK/ { print FNR ": " $0 }' "$file" >"$dir/out"
    check "$file: nothing left to do" "$dir/out"
    awk -v quote="'" 'index($0, quote "\"" quote) { print FNR ": " $0 }' "$file" >"$dir/out"
    check "$file: no shell quoting left behind" "$dir/out"
    awk '/[Cc][Kk][Cc][A-Za-z0-9_]*__|__[Cc][Kk][Cc]|[^A-Za-z0-9_]_[Cc][Kk][Cc]/ { print FNR ": " $0 }' \
        "$file" >"$dir/out"
    check "$file: no name of ours with a leading or double underscore" "$dir/out"
    tags_listed "$file" >"$dir/listed"
    tags_found "$file" >"$dir/found"
    if [ ! -s "$dir/listed" ]; then
        echo "the top comment lists no tags" >"$dir/out"
    else
        diff "$dir/listed" "$dir/found" >"$dir/out"
    fi
    check "$file: tags listed (<) and found (>), in order" "$dir/out"
    rules_missing "$file" >"$dir/out"
    check "$file: every tag stands under a rule line" "$dir/out"
}

first_lines() {
    awk '
        FNR == 1 && !/^(\/\*|\/\/) [a-z.]+ - v[0-9]+\.[0-9]+\.[0-9]+ - / {
            print "line 1: no name, version and clause"
        }
        FNR == 2 && !/SPDX-License-Identifier: MIT/ { print "line 2: no SPDX identifier" }
        FNR == 3 && !/^#ifndef CKCONV_/ { print "line 3: the include guard must open here" }
        FNR == 1 { split($0, part, " - "); text = substr(part[2], 2) }
        /^#define CKCONV_VERSION_(MAJOR|MINOR|PATCH)/ { version = version (version == "" ? "" : ".") $3 }
        /\*\// && FNR > 3 && !manual { manual = FNR }
        END {
            if (version != text) { print "line 1 says " text ", the macros " version }
            if (manual > 350) { print "the manual has " manual " lines, 350 are allowed" }
        }' "$1"
}

# Macros that a header adds to those of the system headers it includes.
macros() {
    "$CC" -dM -E -I"$(dirname "$HEADER")" "$@" 2>&1 |
        awk '/^#define/ { print $2 } !/^#define/ { print "?" $0 }' | sed 's/(.*//' | LC_ALL=C sort -u
}

leaked_macros() {
    flags=$1
    base=$(basename "$HEADER")
    if [ "$flags" = declarations ]; then
        printf '#include <stddef.h>\n#include <stdint.h>\n' >"$dir/before.c"
        printf '#include "%s"\n' "$base" >"$dir/after.c"
        flags=
    else
        # the system headers that the implementation includes, where they exist
        awk '/^[ ]*#[ ]*include[ ]*</ && !/hip_|cuda|nvrtc/' \
            "$dir/all.h" | LC_ALL=C sort -u >"$dir/includes"
        {
            while read -r line; do
                file=$(echo "$line" | sed 's/.*<\(.*\)>.*/\1/')
                printf '#if __has_include(<%s>)\n%s\n#endif\n' "$file" "$line"
            done <"$dir/includes"
        } >"$dir/before.c"
        printf '#define CKCONV_IMPLEMENTATION\n#include "%s"\n' "$base" >"$dir/after.c"
    fi
    # shellcheck disable=SC2086
    macros $flags "$dir/before.c" >"$dir/before"
    # shellcheck disable=SC2086
    macros $flags "$dir/after.c" >"$dir/after"
    LC_ALL=C comm -13 "$dir/before" "$dir/after" | awk -v guard="$guard" '$0 != guard && !/^CKCONV_/'
}

# Macros that are defined somewhere and never undefined, whatever #if they stand in.
never_undefined() {
    awk -v guard="$guard" '
        { sub(/#[ ]+/, "#") }
        /^[ ]*#define CKCI_/ { sub(/\(.*/, "", $2); defined[$2] = FNR }
        /^[ ]*#undef CKCI_/ { undefined[$2] = FNR }
        END {
            for (m in defined) {
                if (m != guard && undefined[m] < defined[m]) { print defined[m] ": " m " is never undefined" }
            }
            for (m in undefined) {
                if (!(m in defined)) { print undefined[m] ": " m " is undefined, but nowhere defined" }
            }
        }' "$1" | sort -n
}

# External symbols and data that can change, in a fixed-address object (else tables of pointers are data).
symbols() {
    printf '#define CKCONV_IMPLEMENTATION\n#include "%s"\n' "$(basename "$HEADER")" >"$dir/object.c"
    if ! "$CC" -std=c99 -O1 -fno-pic -fno-pie -I"$(dirname "$HEADER")" -c "$dir/object.c" -o "$dir/object.o" \
        >"$dir/log" 2>&1; then
        echo "does not compile"
        sed -n 1,5p "$dir/log"
        return
    fi
    nm "$dir/object.o" | awk '
        $2 ~ /^[A-TV-Z]$/ && $3 !~ /^_?ckconv_/ { print "external symbol " $3 }
        $2 ~ /^[dDbBC]$/ { print "mutable data " $3 }'
}

# the macro that says that the implementation was read
guard=$(awk '/^#ifdef CKCONV_IMPLEMENTATION/ { getline; if ($1 == "#ifndef") { print $2; exit } }' "$HEADER")
text_rules "$HEADER"
first_lines "$HEADER" >"$dir/out"
check "$HEADER: first lines, version and length of the manual" "$dir/out"
folder=$(dirname "$HEADER")
cp "$HEADER" "$dir/all.h"
for part in $parts; do # as the compiler reads them
    if [ -f "$folder/$part" ]; then
        sed "/^#include \"$part\"/r $folder/$part" "$dir/all.h" >"$dir/more.h"
        mv "$dir/more.h" "$dir/all.h"
    fi
done
sed -n 's/^#include "\(.*\)" .*CKCONV-SINGLE.*/\1/p' "$dir/all.h" | while read -r part; do
    case " $parts " in *" $part "*) ;; *) echo "$part" ;; esac
done >"$dir/out"
check "$HEADER: parts that this test does not know" "$dir/out"
never_undefined "$dir/all.h" >"$dir/out"
check "$HEADER: every CKCI_ macro is undefined again" "$dir/out"
leaked_macros declarations >"$dir/out"
check "$HEADER: macros that the declarations leave behind" "$dir/out"
for flags in -std=c99 -std=gnu11 "-std=c99 -fopenmp" "-std=c99 -DCKCONV_NO_SIMD" "-std=c++17 -x c++"; do
    leaked_macros "$flags" >"$dir/out"
    check "$HEADER: macros that the implementation leaves behind ($flags)" "$dir/out"
done
if command -v nm >/dev/null 2>&1; then
    symbols >"$dir/out"
    check "$HEADER: external symbols begin with ckconv_, no mutable data" "$dir/out"
else
    echo "skipped: nm not found"
fi
for part in $parts; do
    if [ -f "$folder/$part" ]; then
        text_rules "$folder/$part"
    else
        echo "skipped: no $part"
    fi
done
here=$(dirname "$0")
narrow "$here"/*.[ch] "$here"/*.cc "$here"/*.sh "$here"/../examples/*.[ch] >"$dir/out"
check "tests and examples: lines of 110 columns at most" "$dir/out"
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
