# Prints the calls from file to file, as FILE:LINE "TARGET, for circles.awk: a name before a parenthesis that another
# file defines, not static. A function that stands in a table, or is called by a member, is data: no call by name. Reads
# with reader.awk.

# The name in the head of a definition, what stands before its body.
function defined(head) {
    sub(/\)[ \t]*$/, "", head)
    while (gsub(/\([^()]*\)/, "", head)) continue
    sub(/[ \t]*\(.*/, "", head)
    sub(/.*[^A-Za-z0-9_]/, "", head)
    return head
}

function define(head) {
    if (head !~ /\)[ \t]*$/) return
    if (head ~ /(^|[^A-Za-z0-9_])static[^A-Za-z0-9_]/) here[FILENAME, defined(head)]
    else files[defined(head)] = files[defined(head)] " " FILENAME
}

# Remembers the first call of each name in a file.
function call(body,   name) {
    while (match(body, /[A-Za-z_][A-Za-z0-9_]*\(/)) {
        name = substr(body, RSTART, RLENGTH - 1)
        if (substr(body, RSTART - 1, 1) !~ /[.>]/ && !((FILENAME, name) in seen)) {
            seen[FILENAME, name]
            from[++calls] = FILENAME; line[calls] = FNR; to[calls] = name
        }
        body = substr(body, RSTART + RLENGTH)
    }
}

FNR == 1 { head = ""; depth = 0 }

{
    rest = code($0) " "
    while (match(rest, /[{};]/)) {
        part = substr(rest, 1, RSTART - 1)
        mark = substr(rest, RSTART, 1)
        rest = substr(rest, RSTART + 1)
        if (depth) call(part)
        else if (mark == "{") define(head part)
        head = ""
        depth += (mark == "{") - (mark == "}")
    }
    if (depth) call(rest)
    else head = head rest
}

END {
    for (i = 1; i <= calls; i++) {
        if ((from[i], to[i]) in here || !(to[i] in files)) continue
        count = split(files[to[i]], file, " ")
        for (j = 1; j <= count; j++) print from[i] ":" line[i] " \"" substr(file[j], 5)
    }
}
