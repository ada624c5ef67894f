/* The keys that a case uses, and the cases of a section that do the same run. */
#pragma once
#include "plan/keys/keys.h"

/* Returns whether anything in the resolved case depends on the key. */
bool key_is_used(key_id key, const bench_case *c);
/* Returns in words when the key is used ("precision is fp8"), and whether it is harmless to give it otherwise. Returns
 * NULL if the key is always used. */
const char *key_condition(key_id key, bool *harmless);
/* Returns whether two resolved cases of one section agree in every key that either uses. */
bool same_run(const bench_case *a, const bench_case *b);
