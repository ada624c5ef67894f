# Prints the functions that have more than `most` parameters, as FILE:LINE: NAME has N parameters. Reads with
# reader.awk. A definition is what stands before a { outside all others and ends in ).

# The parameters in the last pair of parentheses of a definition, and the name before it.
function report(text,   i, depth, count, letter) {
    if (text !~ /\)[ \t]*$/) return
    count = 1
    for (i = length(text); i > 0; i--) {
        letter = substr(text, i, 1)
        if (letter == ")") depth++
        else if (letter == "(" && --depth == 0) break
        else if (letter == "," && depth == 1) count++
    }
    text = substr(text, 1, i - 1)
    sub(/[ \t]+$/, "", text)
    sub(/.*[^A-Za-z0-9_]/, "", text)
    if (count > most) print FILENAME ":" start ": " text " has " count " parameters"
}

FNR == 1 { text = ""; depth = 0 }

{
    line = code($0)
    for (i = 1; i <= length(line); i++) {
        character = substr(line, i, 1)
        if (character == "{" && depth++ == 0) report(text)
        if (character == "}") depth--
        if (depth || character ~ /[;{}]/) text = ""
        else if (text != "" || character !~ /[ \t]/) {
            if (text == "") start = FNR
            text = text character
        }
    }
    if (text != "") text = text " "
}
