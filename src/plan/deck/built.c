/* What keeps a case from being trained. */
#include "plan/deck/deck.h"
#include "plan/keys/keys.h"
#include <stdio.h>
#include <string.h>

static void add_reason(char out[REASON_LENGTH], const char *what, const char *value)
{
    size_t used = strlen(out);
    snprintf(out + used, REASON_LENGTH - used, "%s%s %s", used ? ", " : "", what, value);
}

static bool is_listed(text_view words, const char *value)
{
    while (words.length)
        if (text_equal(text_word(&words), value)) return true;
    return false;
}

static void add_key(char out[REASON_LENGTH], key_id key, const bench_case *c)
{
    char value[KEY_TEXT];
    const key_row *row = key_at(key);
    if (!row->built) return;
    key_write(key, c, value);
    if (!is_listed(text_of(row->built), value)) add_reason(out, row->name, value);
}

void built_reasons(const bench_case *c, bool cuda_built, char out[REASON_LENGTH])
{
    out[0] = '\0';
    for (key_id key = 0; key < KEYS; key++) add_key(out, key, c);
    if (c->backend == BACKEND_CUDA && !cuda_built) add_reason(out, "backend", backend_name(c->backend));
}
