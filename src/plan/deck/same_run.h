/* Which keys a case uses, and which cases of a section do the same run. */
#pragma once
#include "plan/keys/keys.h"

/* Does anything of the resolved case depend on the key? */
bool key_is_used(key_id key, const bench_case *c);
/* When a case uses it, in words ("precision is fp8"), of keys that a deck may not give where no case does; else NULL.
 */
const char *key_unused_unless(key_id key);
/* Of two resolved cases of one section: every key that either uses has one value. */
bool same_run(const bench_case *a, const bench_case *b);
