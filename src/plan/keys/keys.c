/* The table of keys, and lookups in it. */
#include "plan/keys/keys.h"
#include "base/fail.h"
#include "base/say.h"
#include "plan/keys/names.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define FIELD(member) .offset = offsetof(bench_case, member), .bytes = sizeof(((bench_case *)0)->member)
#define WORD(list) .kind = KIND_WORD, .words = list
#define INTEGER(from, to) .kind = KIND_INTEGER, .low = from, .high = to
#define REAL(from, to) .kind = KIND_REAL, .least = from, .most = to
#define REAL_OR_WORD(list, from, to) .kind = KIND_REAL_OR_WORD, .words = list, .least = from, .most = to
#define RANGE(apart) .kind = KIND_RANGE, .low = apart, .high = MANY
#define PEAK REAL_OR_WORD(none_names, 0.001, 1e6), .fallback = "none"

enum { DEGREE = 32768, WIDTH = 16777216, MANY = 2147483647 };

static const key_row table[KEYS] = {
    [KEY_SIZE] = { "size", WORD(size_names), .fallback = "auto", FIELD(size),
                   .explanation = "full: the recipe's model; small: about 10 million parameters; check: the model of "
                                  "the check; auto: small on the host or where full does not fit, else full" },
    [KEY_PRECISION] = { "precision", WORD(precision_names), .fallback = "bf16", FIELD(precision),
                        .explanation = "fp32: FP32 everywhere; bf16, fp8: the types of the recipe (--list)" },
    [KEY_FP8_SCALE] = { "fp8_scale", WORD(fp8_scale_names), .fallback = "power_of_two", FIELD(fp8_scale),
                        .explanation = "how a tensor's scale (largest number of the format / largest magnitude) is "
                                       "rounded: down to a power of two, or not at all, as in the recipes" },
    [KEY_FP8_SCALING] = { "fp8_scaling", WORD(fp8_scaling_names), .fallback = "delayed", FIELD(fp8_scaling),
                          .explanation = "delayed: scales from the largest magnitudes of up to 1024 earlier steps; "
                                         "current: from those of the same microbatch, over tensor and context ranks" },
    [KEY_BACKEND] = { "backend", WORD(backend_names), .fallback = "auto", FIELD(backend),
                      .explanation = "auto: cuda if every rank has a usable GPU, else host" },
    [KEY_RECORD] = { "record", .kind = KIND_PATH, .fallback = "gsw.h5", FIELD(record),
                     .explanation = "HDF5 file of the whole run, or none" },
    [KEY_OUTPUT] = { "output", .kind = KIND_PATH, .fallback = "none", FIELD(output),
                     .explanation = "file that gets a copy of the report, as HPL's output file; it is replaced" },
    [KEY_SHEET] = { "sheet", .kind = KIND_PATH, .fallback = "none", FIELD(sheet),
                    .explanation =
                        "machine sheet (NAME of inputs/machines/, or FILE.sheet): each case is compared with "
                        "what --project expects" },
    [KEY_STEPS] = { "steps", INTEGER(1, 1000000), .fallback = "50", FIELD(steps), .explanation = "timed steps" },
    [KEY_WARMUP] = { "warmup", INTEGER(0, 1000000), .fallback = "0", FIELD(warmup),
                     .explanation = "untimed steps before the timed steps" },
    [KEY_MINUTES] = { "minutes", REAL_OR_WORD(none_names, 0.01, 100000.0), .fallback = "none", FIELD(minutes),
                      .explanation = "soak: timed steps run for this number of minutes, and for at least `steps` "
                                     "steps; needs warmup of 2 or more" },
    [KEY_REPEATS] = { "repeats", INTEGER(1, REPEATS_MOST), .fallback = "1", FIELD(repeats),
                      .explanation =
                          "how often the case is run; the last run is NOT VALID if the mean step times do not agree" },
    [KEY_SEED] = { "seed", INTEGER(0, 4294967295), .takes_word = true, .fallback = "1", FIELD(seed),
                   .explanation = "determines initial weights and tokens; a word stands for the first 8 hex digits of "
                                  "its SHA-256, so a site's own word gives losses that are not known before" },
    [KEY_TOKENS] = { "tokens", WORD(tokens_names), .rule = "recipe's", FIELD(tokens),
                     .explanation = "uniform: random; ramp: documents that count up; zeros: all zero" },
    [KEY_TENSOR] = { "tensor", INTEGER(1, DEGREE), .rule = "recipe's, or 1", FIELD(layout.degree[AXIS_TENSOR]),
                     .explanation = "tensor-parallel ranks, with sequence parallelism" },
    [KEY_PIPELINE] = { "pipeline", INTEGER(1, DEGREE), .rule = "recipe's, or 1", FIELD(layout.degree[AXIS_PIPELINE]),
                       .explanation = "pipeline stages" },
    [KEY_CONTEXT] = { "context", INTEGER(1, DEGREE), .rule = "recipe's, or 1", FIELD(layout.degree[AXIS_CONTEXT]),
                      .explanation = "context-parallel ranks" },
    [KEY_EXPERT] = { "expert", INTEGER(1, DEGREE), .rule = "recipe's, or 1", FIELD(layout.expert),
                     .explanation = "expert-parallel ranks, taken from the context x data ranks" },
    [KEY_DATA] = { "data", INTEGER(1, DEGREE), .rule = "rest of ranks", FIELD(layout.degree[AXIS_DATA]),
                   .explanation = "data-parallel ranks; ranks left over stay idle" },
    [KEY_SHARD] = { "shard", INTEGER(1, DEGREE), .rule = "recipe's, or 1", FIELD(layout.degree[AXIS_SHARD]),
                    .explanation = "fully sharded data-parallel ranks" },
    [KEY_CHUNKS_PER_STAGE] = { "chunks_per_stage", INTEGER(1, DEGREE), .rule = "recipe's, or 1",
                               FIELD(layout.chunks_per_stage), .explanation = "model chunks of a pipeline stage" },
    [KEY_COPIES] = { "copies", INTEGER(1, DEGREE), .words = all_names, .fallback = "1", FIELD(layout.copies),
                     .explanation =
                         "copies of the case that run at the same time, on ranks / copies ranks each; a copy larger "
                         "than a node gets whole nodes, smaller ones share nodes; all: as many as there is room for in "
                         "the smallest layout" },
    [KEY_CAPACITY] = { "capacity", REAL_OR_WORD(none_names, 0.01, 1000.0), .fallback = "1", FIELD(capacity),
                       .explanation =
                           "rows of an expert, as a multiple of its even share; further choices are dropped, those of "
                           "least weight first; none: rows for all tokens, at several times the time and memory" },
    [KEY_MICROBATCH] = { "microbatch", INTEGER(1, 65535), .rule = "recipe's, or 1", FIELD(microbatch),
                         .explanation = "sequences in a microbatch of a data rank" },
    [KEY_GLOBAL_BATCH] = { "global_batch", INTEGER(1, MANY), .rule = "recipe's, or *", FIELD(global_batch),
                           .explanation = "sequences in a step; * means data x shard x microbatch x max(2, pipeline)" },
    [KEY_SEQUENCE] = { "sequence", INTEGER(1, WIDTH), .rule = "by size", FIELD(model.sequence),
                       .explanation = "tokens in a sequence" },
    [KEY_LAYERS] = { "layers", INTEGER(1, 100000), .rule = "by size", FIELD(model.layers),
                     .explanation =
                         "transformer layers; with size = full the recipe's row of this depth, if there is one" },
    [KEY_HIDDEN] = { "hidden", INTEGER(2, WIDTH), .rule = "by size", FIELD(model.hidden),
                     .explanation = "width of the model; each head has hidden / heads channels" },
    [KEY_FFN] = { "ffn", INTEGER(2, WIDTH), .rule = "by size", FIELD(model.ffn),
                  .explanation = "inner width of the MLP" },
    [KEY_HEADS] = { "heads", INTEGER(1, WIDTH), .rule = "by size", FIELD(model.heads), .explanation = "query heads" },
    [KEY_KV_HEADS] = { "kv_heads", INTEGER(1, WIDTH), .rule = "by size", FIELD(model.kv_heads),
                       .explanation = "key-value heads; heads by default, in models that have equal numbers of both" },
    [KEY_VOCABULARY] = { "vocabulary", INTEGER(4, 1073741824), .rule = "by size", FIELD(model.vocabulary),
                         .explanation = "number of different tokens, before padding to a multiple of 128 x tensor" },
    [KEY_RECOMPUTE] = { "recompute", WORD(recompute_names), .rule = "recipe's", FIELD(recompute),
                        .explanation = "what the backward pass computes again instead of storing it; attention_mlp: "
                                       "norms, attention and the MLP without its down projection; elementwise: norms "
                                       "and the MLP's activation; attention_elementwise: these and attention" },
    [KEY_SHARDING] = { "sharding", WORD(sharding_names), .rule = "recipe's", FIELD(sharding),
                       .explanation = "optimizer: master weights and moments are divided among data x context ranks; "
                                      "the default is none if there is only one such rank" },
    [KEY_SCHEDULE] = { "schedule", WORD(schedule_names), .rule = "by chunks", FIELD(schedule),
                       .explanation =
                           "order of forwards and backwards; interleaved if chunks_per_stage > 1, else 1f1b" },
    [KEY_STRIPS] = { "strips", INTEGER(1, STRIPS_MOST), .rule = "by rows", FIELD(strips),
                     .explanation = "pieces into which a tensor rank's positions are cut, so that one is sent while "
                                    "another is multiplied; by default 4, 2 or 1, with at least 1024 rows in each; "
                                    "fewer if strips x tensor does not divide the positions" },
    [KEY_CONTEXT_GRADIENTS] = { "context_gradients", WORD(context_gradient_names), .fallback = "fp32",
                                FIELD(context_gradients),
                                .explanation = "type in which gradients of keys and values travel between context "
                                               "ranks; always fp32 with precision = fp32" },
    [KEY_OVERLAP] = { "overlap", WORD(overlap_names), .fallback = "on", FIELD(overlap),
                      .explanation = "on: transfers run during computation; off: only a pipeline's sends do" },
    [KEY_DETERMINISTIC] = { "deterministic", WORD(answer_names), .fallback = "no", FIELD(deterministic),
                            .explanation = "yes: every run on GPUs gives the same bits; runs on the host always do" },
    [KEY_TRANSFER_SMS] = { "transfer_sms", INTEGER(0, 64), .rule = "by layout", FIELD(transfer_sms),
                           .explanation = "multiprocessors (SMs) of a GPU that matrix products leave free for "
                                          "transfers; 0: none; by default the number that transfers can occupy at the "
                                          "same time, which the report prints" },
    [KEY_PEAK_BF16] = { "peak_bf16", PEAK, FIELD(peak_bf16),
                        .explanation =
                            "dense BF16 TFLOP/s of a device, for the MFU of devices that the program does not know" },
    [KEY_PEAK_FP8] = { "peak_fp8", PEAK, FIELD(peak_fp8), .explanation = "the same for FP8" },
    [KEY_LEARNING_RATE] = { "learning_rate", REAL(0.0, 100.0), .rule = "by size", FIELD(optimizer.learning_rate),
                            .explanation = "largest learning rate; the smallest changes in proportion; default for "
                                           "size = full: the recipe's; for small and check: 1e-3, constant" },
    [KEY_LEARNING_RATE_WARMUP] = { "learning_rate_warmup", INTEGER(0, 1000000), .rule = "by size",
                                   FIELD(optimizer.learning_rate_warmup),
                                   .explanation =
                                       "steps until the largest rate; default for size = full: the recipe's; else 0" },
    [KEY_CHECK] = { "check", WORD(check_names), .fallback = "full", FIELD(check),
                    .explanation = "model: check a small model before the steps; full: also replay one or two steps "
                                   "after them; off: neither, and NOT VALID" },
    [KEY_EXPECT] = { "expect", REAL_OR_WORD(expect_names, 1e-3, 1e15), .fallback = "none", FIELD(expect),
                     .explanation =
                         "tokens/s that the case needs to be ACCEPTED; reference: the speed of the published cell" },
    [KEY_TOLERANCE] = { "tolerance", REAL(0.0, 0.99), .fallback = "0.05", FIELD(tolerance),
                        .explanation = "fraction by which the speed may be below expect; published BF16 steps of one "
                                       "model differ by 0.2 to 5 %" },
    [KEY_POWER_LIMIT] = { "power_limit", REAL_OR_WORD(none_names, 1.0, 1e6), .fallback = "none", FIELD(power_limit),
                          .explanation =
                              "watts of a GPU: a case with a larger mean, or without samples, is NOT ACCEPTED" },
    [KEY_CHECKPOINT] = { "checkpoint", .kind = KIND_PATH, .fallback = "none", FIELD(checkpoint),
                         .explanation = "folder for the state of training, saved after the last timed step as "
                                        "step-NNNNNNNN; if there are several cases, each has a subfolder case-N" },
    [KEY_CHECKPOINT_EVERY] = { "checkpoint_every", INTEGER(0, 1000000), .fallback = "0", FIELD(checkpoint_every),
                               .explanation = "also save each time this number of steps has passed; the step after a "
                                              "save is not in the mean; 0: save only at the end" },
    [KEY_CHECKPOINT_KEEP] = { "checkpoint_keep", INTEGER(0, 1000000), .fallback = "2", FIELD(checkpoint_keep),
                              .explanation =
                                  "number of newest checkpoints of this run that stay; 0: none, to test storage" },
    [KEY_CHECKPOINT_READ] = { "checkpoint_read", WORD(checkpoint_read_names), .fallback = "no", FIELD(checkpoint_read),
                              .explanation = "shifted: after a save, each rank reads another rank's file (of the next "
                                             "node if there is one, so that no cache helps) and compares checksums" },
    [KEY_LOAD] = { "load", .kind = KIND_PATH, .fallback = "none", FIELD(load),
                   .explanation = "folder of checkpoints: training continues from the highest step, in the layout of "
                                  "this deck, which must have only one case" },
    [KEY_STALL_SECONDS] = { "stall_seconds", REAL(0.1, 86400.0), .fallback = "60", FIELD(stall_seconds),
                            .explanation = "seconds without progress until the run ends with status 86" },
    [KEY_TIME_LIMIT] = { "time_limit", REAL_OR_WORD(none_names, 1.0, 1e7), .fallback = "none", FIELD(time_limit),
                         .explanation = "seconds from the start of the run until it stops as on SIGTERM; the "
                                        "launcher's limit, if known, also counts" },
    [KEY_PROFILE] = { "profile", RANGE(1), .words = none_names, .fallback = "none", FIELD(profile),
                      .explanation = "steps of this run that a profiler records, from 0; 20-25 are steps 20 to 24" },
    [KEY_PROFILE_RANKS] = { "profile_ranks", RANGE(0), .fallback = "0-7", FIELD(profile_ranks),
                            .explanation = "ranks that are captured; 0-7 are ranks 0 to 7" },
    [KEY_WEIGHT_GRADIENT_QUEUE] = { "weight_gradient_queue", WORD(overlap_names), .fallback = "on",
                                    FIELD(weight_gradient_queue),
                                    .explanation =
                                        "on: weight gradients have a queue that yields to all other computation" },
    [KEY_ORDER] = { "order", WORD(order_names), .fallback = "submitted", FIELD(order),
                    .explanation = "order of operations on the host; hostile: any order that the waits allow" },
    [KEY_ORDER_SEED] = { "order_seed", INTEGER(0, 4294967295), .fallback = "1", FIELD(order_seed),
                         .explanation = "seed of the hostile order" },
    [KEY_SHARE_DEVICES] = { "share_devices", WORD(answer_names), .fallback = "no", FIELD(share_devices),
                            .explanation = "yes: several ranks may use one GPU" },
    [KEY_ATTENTION] = { "attention", WORD(attention_names), .fallback = "auto", FIELD(attention),
                        .explanation = "attention kernels on GPUs; auto: the library's if it supports the case, "
                                       "otherwise this program's; own: this program's" },
    [KEY_FAULT] = { "fault", .kind = KIND_FAULT, .fallback = "none", FIELD(fault),
                    .explanation =
                        "fault planted at execution NTH of OPERATION in each step on RANK, as in drop all_reduce 3 1" },
};

const key_row *key_at(key_id key)
{
    if (!table[key].name) FAIL("key %d has no row in keys.c", (int)key);
    return &table[key];
}

bool key_takes_list(key_id key)
{
    key_kind kind = table[key].kind;
    return kind != KIND_FAULT && kind != KIND_PATH;
}

bool key_is_of_run(key_id key) { return key == KEY_RECORD || key == KEY_OUTPUT || key == KEY_SHEET; }

key_id key_find(text_view name)
{
    key_id key = 0;
    while (key < KEYS && !text_equal(name, key_at(key)->name)) key++;
    return key;
}

key_id key_nearest(text_view name)
{
    key_id nearest = 0;
    for (key_id key = 1; key < KEYS; key++)
        if (text_distance(name, table[key].name) < text_distance(name, table[nearest].name)) nearest = key;
    return text_near(name, table[nearest].name) ? nearest : KEYS;
}

const char *key_remedy(text_view name, char out[KEY_REMEDY])
{
    key_id nearest = key_nearest(name);
    if (nearest == KEYS) snprintf(out, KEY_REMEDY, "--keys lists them");
    else snprintf(out, KEY_REMEDY, "the nearest is %s", table[nearest].name);
    return out;
}

void key_values(key_id key, char out[KEY_SENTENCE])
{
    const key_row *row = key_at(key);
    switch (row->kind) {
    case KIND_WORD: names_list(row->words, out, KEY_SENTENCE); break;
    case KIND_INTEGER:
        snprintf(out, KEY_SENTENCE, "%lld to %lld%s%s", (long long)row->low, (long long)row->high,
                 row->takes_word ? ", a word"
                 : row->words    ? ", "
                                 : "",
                 row->words ? row->words[0] : "");
        break;
    case KIND_REAL: snprintf(out, KEY_SENTENCE, "%g to %g", row->least, row->most); break;
    case KIND_REAL_OR_WORD: {
        char words[KEY_TEXT];
        names_list(row->words, words, sizeof words);
        snprintf(out, KEY_SENTENCE, "%g to %g, %.64s", row->least, row->most, words);
        break;
    }
    case KIND_RANGE: strcpy(out, row->words ? "FIRST-LAST, none" : "FIRST-LAST"); break;
    case KIND_FAULT: strcpy(out, "KIND OPERATION NTH RANK"); break;
    case KIND_PATH: strcpy(out, "a path, none"); break;
    }
}

static void print_row(key_id key)
{
    char values[KEY_SENTENCE];
    key_values(key, values);
    const key_row *row = key_at(key);
    say("%-20s  %-28s  %-15s  %s\n", row->name, values, row->fallback ? row->fallback : row->rule, row->explanation);
}

static void print_rows(key_id from, key_id to)
{
    say("%-20s  %-28s  %-15s  %s\n", "key", "values", "default", "meaning");
    for (key_id key = from; key < to; key++) print_row(key);
}

static void print_operations(void)
{
    say("Operations for fault:");
    for (const char *const *name = operation_names; *name; name++) say(" %s", *name);
    say("\n");
}

void key_print(key_id key)
{
    print_rows(key, key + 1);
    if (key == KEY_FAULT) print_operations();
}

void keys_print(void)
{
    print_rows(0, USER_KEYS);
    say("\nEvery key whose value is not a path takes a list of values, separated by blanks: a sweep. Later keys of "
        "this table vary faster.\n--keys developer prints the keys for tests of the program.\n");
}

void keys_print_developer(void)
{
    print_rows(USER_KEYS, KEYS);
    say("\nA case that sets one of these keys is NOT VALID. fault takes no list.\n");
    print_operations();
}
