/* The keys of a deck, one row each. Parser, bounds, default, explanation and echo come from the row. A value is stored
 * in the field of bench_case that the row names, and is echoed from there. */
#pragma once
#include "base/text.h"
#include "plan/bench_case.h"

/* Keys in the order of the table. In a sweep the later key varies faster. */
typedef enum {
    KEY_SIZE,
    KEY_PRECISION,
    KEY_FP8_SCALE,
    KEY_FP8_SCALING,
    KEY_BACKEND,
    KEY_RECORD,
    KEY_OUTPUT,
    KEY_SHEET,
    KEY_STEPS,
    KEY_WARMUP,
    KEY_MINUTES,
    KEY_REPEATS,
    KEY_SEED,
    KEY_TOKENS,
    KEY_TENSOR,
    KEY_PIPELINE,
    KEY_CONTEXT,
    KEY_EXPERT,
    KEY_DATA,
    KEY_SHARD,
    KEY_CHUNKS_PER_STAGE,
    KEY_COPIES,
    KEY_CAPACITY,
    KEY_MICROBATCH,
    KEY_GLOBAL_BATCH,
    KEY_SEQUENCE,
    KEY_LAYERS,
    KEY_HIDDEN,
    KEY_FFN,
    KEY_HEADS,
    KEY_KV_HEADS,
    KEY_VOCABULARY,
    KEY_RECOMPUTE,
    KEY_SHARDING,
    KEY_SCHEDULE,
    KEY_STRIPS,
    KEY_CONTEXT_GRADIENTS,
    KEY_OVERLAP,
    KEY_DETERMINISTIC,
    KEY_TRANSFER_SMS,
    KEY_PEAK_BF16,
    KEY_PEAK_FP8,
    KEY_LEARNING_RATE,
    KEY_LEARNING_RATE_WARMUP,
    KEY_CHECK,
    KEY_EXPECT,
    KEY_TOLERANCE,
    KEY_POWER_LIMIT,
    KEY_CHECKPOINT,
    KEY_CHECKPOINT_EVERY,
    KEY_CHECKPOINT_KEEP,
    KEY_CHECKPOINT_READ,
    KEY_LOAD,
    KEY_STALL_SECONDS,
    KEY_TIME_LIMIT,
    KEY_PROFILE,
    KEY_PROFILE_RANKS,
    USER_KEYS, /* keys for developers begin here; all have a fallback */
    KEY_WEIGHT_GRADIENT_QUEUE = USER_KEYS,
    KEY_ORDER,
    KEY_ORDER_SEED,
    KEY_SHARE_DEVICES,
    KEY_ATTENTION,
    KEY_FAULT,
    KEYS
} key_id;

typedef enum { KIND_WORD, KIND_INTEGER, KIND_REAL, KIND_REAL_OR_WORD, KIND_RANGE, KIND_FAULT, KIND_PATH } key_kind;

typedef struct {
    const char *name;
    key_kind kind;
    const char *const *words; /* NULL-terminated. KIND_WORD: in the order of the enumeration. KIND_REAL_OR_WORD: stored
                                 as 0, -1. KIND_INTEGER: stored as 0, or NULL. KIND_RANGE: stored as 0-0, or NULL */
    int64_t low, high;        /* KIND_INTEGER: bounds; KIND_RANGE: least LAST - FIRST, largest LAST */
    bool takes_word;          /* KIND_INTEGER: a word stands for the first 32 bits of its SHA-256 */
    double least, most;       /* KIND_REAL, KIND_REAL_OR_WORD: bounds */
    const char *fallback;     /* default, as in a deck; NULL: by rule */
    const char *rule;         /* the rule in words; NULL if there is a fallback */
    size_t offset, bytes;     /* its field in bench_case */
    const char *explanation;
} key_row;

enum { KEY_SENTENCE = 960, KEY_TEXT = PATH_LENGTH };

const key_row *key_at(key_id key);
/* Returns the key with this name, or KEYS. */
key_id key_find(text_view name);
/* Returns the first key with the smallest text_distance to the name; KEYS if none is near. */
key_id key_nearest(text_view name);
/* Writes a remedy for an unknown name: "the nearest is tensor" or "--keys lists them". Returns out. */
enum { KEY_REMEDY = 64 };
const char *key_remedy(text_view name, char out[KEY_REMEDY]);
/* Returns whether the value may be a list. A fault (four words) and a path may not. */
bool key_takes_list(key_id key);
/* Returns whether the key has one value for the whole run. */
bool key_is_of_run(key_id key);
/* Writes the values that a deck may give: "fp32 bf16", "1 to 1000000". */
void key_values(key_id key, char out[KEY_SENTENCE]);

/* Reads one value into its field. On a mistake it returns false, keeps the field and writes a sentence. */
bool key_read(key_id key, text_view value, bench_case *into, char sentence[KEY_SENTENCE]);
/* Sets every field that has a fallback. */
void key_fallbacks(bench_case *into);
/* Writes the value of a resolved case as a deck writes it. */
void key_write(key_id key, const bench_case *c, char out[KEY_TEXT]);
/* Returns or stores the value of an integer or word key. */
int64_t key_integer(key_id key, const bench_case *c);
void key_store(key_id key, bench_case *into, int64_t value);
/* Prints one key's row (--keys NAME). */
void key_print(key_id key);
/* Prints the table of the keys for users (--keys): name, values, default, explanation. */
void keys_print(void);
/* Prints the table of the keys for developers (--keys developer), then the names of operations for `fault`. */
void keys_print_developer(void);
