# Prints the includes or calls that close a circle between modules (FILE.c, FILE.h and so on together are one) or, with
# of=folder, folders. Reads lines FILE:LINE "TARGET, as architecture.sh's includes() and calls() write them.

function name(path) {
    sub(/\.[a-z]+$/, "", path)
    if (of == "folder" && !sub(/\/[^\/]*$/, "", path)) path = "src"
    return path
}

# Remembers the first place where `from` names `to`; to_of[from, 1 .. count[from]] are all that it names.
function include(from, to, place) {
    if (from == to || (from, to) in first) return
    first[from, to] = place
    to_of[from, ++count[from]] = to
}

# Marks all that is reached from `from`.
function reach(from,   i, to) {
    for (i = 1; i <= count[from]; i++) {
        to = to_of[from, i]
        if (to in reached) continue
        reached[to] = 1
        reach(to)
    }
}

function reaches(from, to) {
    split("", reached)
    reach(from)
    return to in reached
}

$2 ~ /^"/ {
    split($1, place, ":")
    sub(/^src\//, "", place[1])
    include(name(place[1]), name(substr($2, 2)), $1)
}

END {
    for (from in count) {
        if (!reaches(from, from)) continue
        for (i = 1; i <= count[from]; i++)
            if (reaches(to_of[from, i], from))
                print first[from, to_of[from, i]] ": from " from " to " to_of[from, i] ", and back"
    }
}
