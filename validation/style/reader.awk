# What a line of C or CUDA says without comments, directives and what stands in quotes, for the other readers of this
# folder. To be called with every line of a file, in order.
function code(line,   before, after) {
    if (FNR == 1) in_comment = in_directive = 0
    if (in_comment) {
        if (!match(line, /\*\//)) return ""
        line = substr(line, RSTART + 2)
        in_comment = 0
    }
    gsub(/\\./, "", line) # escapes, so that quotes pair up
    gsub(/"[^"]*"/, "\"\"", line)
    gsub(/'[^']*'/, "0", line)
    while (match(line, /\/\*/)) {
        before = substr(line, 1, RSTART - 1)
        after = substr(line, RSTART + 2)
        if (match(after, /\*\//)) {
            line = before " " substr(after, RSTART + 2)
        } else {
            line = before
            in_comment = 1
        }
    }
    sub(/\/\/.*/, "", line)
    if (in_directive || line ~ /^[ \t]*#/) {
        in_directive = $0 ~ /\\$/
        return ""
    }
    return line
}
