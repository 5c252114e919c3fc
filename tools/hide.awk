# Writes src/hide.h or src/show.h:  awk -v what=hide -f tools/hide.awk ROOM... > src/hide.h
# A program may call a macro whatever it likes, so words of src/ that are not ckconv's own are hidden while the
# implementation is read. Words are what the rooms hold: upper case, but for names that begin with CKC, parameters of
# macros (which nothing expands) and what system headers define; and a few others that programs define.
function words(text, line, part, at, word, more) {
    split("", own)
    line = text
    if (match(line, /^[ \t]*#[ \t]*define[ \t]+[A-Za-z_0-9]+\([^)]*\)/)) {
        part = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        sub(/^[^(]*\(/, "", part)
        while (match(part, /[A-Za-z_][A-Za-z_0-9]*/)) {
            own[substr(part, RSTART, RLENGTH)] = 1
            part = substr(part, RSTART + RLENGTH)
        }
    } else if (line ~ /^[ \t]*#[ \t]*(pragma|undef|include)/) {
        return
    }
    while (match(line, /[A-Za-z_0-9]+/)) {
        word = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        if (word in own || word in system_word || word ~ /^CKC/) {
            continue
        }
        if (word ~ /^[A-Z][A-Z0-9_]*$/) {
            found[word] = 1
        }
    }
}
function code(line, from, to, rest) {
    while (1) {
        if (comment) {
            to = index(line, "*/")
            if (!to) {
                return ""
            }
            comment = 0
            line = substr(line, to + 2)
        }
        gsub(/"(\\.|[^"\\])*"/, "", line)
        from = index(line, "/*")
        if (!from) {
            return line
        }
        rest = substr(line, from + 2)
        to = index(rest, "*/")
        if (!to) {
            comment = 1
            return substr(line, 1, from - 1)
        }
        line = substr(line, 1, from - 1) " " substr(rest, to + 2)
    }
}
BEGIN {
    n = split("CLOCKS_PER_SEC CLOCK_MONOTONIC CUDART_VERSION INT32_MAX INT32_MIN INT64_MAX INT64_MIN NULL TIME_UTC " \
        "UINT32_MAX", list, " ")
    for (i = 1; i <= n; i++) {
        system_word[list[i]] = 1
    }
    n = split("I align all any array begin bit bits byte check clamp debug each emit end error expect fail far " \
        "global half huge interface internal likely local log loop major mask max min minor near none one packed " \
        "pass pixel real repeat require sign single slots small square step swap then thread two unlikely vec " \
        "vector verify warn word words wrap zero", list, " ")
    for (i = 1; i <= n; i++) {
        found[list[i]] = 1 # lower case that programs do define; and for the headers of C++
    }
}
FNR == 1 {
    comment = 0
    held = ""
}
{
    line = held code($0)
    if (line ~ /\\$/) {
        held = substr(line, 1, length(line) - 1) " "
    } else {
        held = ""
        words(line)
    }
}
END {
    n = 0
    for (word in found) {
        for (i = ++n; i > 1 && sorted[i - 1] > word; i--) {
            sorted[i] = sorted[i - 1]
        }
        sorted[i] = word
    }
    for (i = 0; i < 108; i++) {
        rule = rule "-"
    }
    print "/*" rule
    if (what == "hide") {
        print "  >>hide"
        print "  Macros of the program that includes this file lie aside while the implementation is read: whatever N or"
        print "  SIZE are there, here they are names. They come back at the end (>>show). The list is made of the words of"
        print "  all rooms: `make headers` writes it, and a test compares it with them."
    } else {
        print "  >>show"
        print "  The macros of >>hide come back, so that a program finds its own as it left them. This is the last thing in"
        print "  the merged header but for the licence. The list is made of the words of all rooms: `make headers` writes"
        print "  both, so do not edit it."
    }
    print "*/"
    print "#pragma once"
    print "#if defined(__GNUC__) || defined(__clang__) || defined(_MSC_VER)"
    for (i = 1; i <= n; i++) {
        if (what == "hide") {
            print "#pragma push_macro(\"" sorted[i] "\")"
            print "#undef " sorted[i]
        } else {
            print "#pragma pop_macro(\"" sorted[i] "\")"
        }
    }
    print "#endif"
}
