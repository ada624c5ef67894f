/* Mistakes of a deck, kept in order by insertion. */
#include "plan/keys/mistakes.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool mistakes_full(const mistakes *m, int line)
{
    return m->count == DECK_MESSAGES && line >= m->line[DECK_MESSAGES - 1];
}

static bool is_duplicate(const mistakes *m, const char *message)
{
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->message[i].line, message) == 0) return true;
    return false;
}

static void insert(mistakes *m, int line, const deck_message *message)
{
    if (mistakes_full(m, line) || is_duplicate(m, message->line)) return;
    int i = m->count < DECK_MESSAGES ? m->count++ : DECK_MESSAGES - 1;
    for (; i > 0 && m->line[i - 1] > line; i--) {
        m->line[i] = m->line[i - 1];
        m->message[i] = m->message[i - 1];
    }
    m->line[i] = line;
    m->message[i] = *message;
}

void mistake(mistakes *m, int line, const char *key, const char *format, ...)
{
    deck_message message;
    int start = snprintf(message.line, sizeof message.line, "%s:%d: %s: ", m->deck, line, key);
    if (start < 0 || (size_t)start >= sizeof message.line) start = 0;
    message.sentence = start;
    message.key = start ? start - (int)strlen(key) - 2 : 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message.line + start, sizeof message.line - (size_t)start, format, arguments);
    va_end(arguments);
    insert(m, line, &message);
}

void mistakes_add(mistakes *m, const mistakes *other)
{
    for (int i = 0; i < other->count; i++) insert(m, other->line[i], &other->message[i]);
}
