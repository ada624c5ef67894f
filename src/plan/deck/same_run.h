/* The keys that a case uses, and the cases of a section that do the same run. */
#pragma once
#include "plan/keys/keys.h"

/* Returns whether anything in the resolved case depends on the key. */
bool key_is_used(key_id key, const bench_case *c);
/* Returns the condition of using the key in words ("precision is fp8"), if an unused key is a mistake; else NULL. */
const char *key_unused_unless(key_id key);
/* Returns whether two resolved cases of one section agree in every key that either uses. */
bool same_run(const bench_case *a, const bench_case *b);
