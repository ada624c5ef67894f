# Prints the variables of C files that are not constants: at file scope, and static ones inside functions.
# Reads with reader.awk, and folds { ... } into {}.

# True for a declaration that can change. What counts is const after the last *, or anywhere without a *.
function changes(text) {
    sub(/=.*/, "", text)
    gsub(/^[ \t]+|[ \t]+$/, "", text)
    if (text ~ /\{\}$/) return 0 # a struct, union or enum alone
    gsub(/\{\}/, "body", text)
    if (text == "" || text ~ /^typedef[ \t]/) return 0
    if (text ~ /^(static[ \t]+)?(struct|union|enum)([ \t]+[A-Za-z0-9_]+)?$/) return 0
    if (text ~ /\(/ && text !~ /^[^(]*\([ \t]*\*/) return 0 # a prototype; but int (*f)(void) is a variable
    if (text ~ /\(/) return text !~ /^[^(]*\([ \t]*\*[ \t]*const/
    if (text ~ /\*/) sub(/.*\*/, "*", text)
    return text !~ /(^|[^A-Za-z0-9_])const([^A-Za-z0-9_]|$)/
}

function report(text, line) {
    gsub(/[ \t]+/, " ", text)
    print FILENAME ":" line ": can change:" (text ~ /^ / ? "" : " ") substr(text, 1, 80)
}

FNR == 1 { depth = 0; text = "" }

{
    line = code($0)
    if (depth > 0 && line ~ /^[ \t]+static[ \t]/ && line !~ /^[ \t]+static[ \t]+_?assert/ && changes(local(line)))
        report(line, FNR)
    for (i = 1; i <= length(line); i++) {
        character = substr(line, i, 1)
        if (character == "{") {
            if (depth++ == 0) text = text "{"
        } else if (character == "}") {
            if (--depth == 0) {
                text = text "}"
                if (text ~ /\)[^=]*\{\}$/ && text !~ /=/) text = "" # the end of a function
            }
        } else if (depth == 0 && character == ";") {
            if (changes(text)) report(text, start)
            text = ""
        } else if (depth == 0) {
            if (text ~ /^[ \t]*$/) start = FNR
            text = text character
        }
    }
    if (depth == 0) text = text " "
}

# The declaration on one line inside a function.
function local(line) {
    sub(/^[ \t]+/, "", line)
    sub(/;.*/, "", line)
    sub(/\{.*/, "", line)
    return line
}
