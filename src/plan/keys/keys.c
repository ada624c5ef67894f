/* The table of keys, and finding one in it. */
#include "plan/keys/keys.h"
#include "base/say.h"
#include "plan/keys/names.h"
#include <stddef.h>
#include <stdio.h>

#define FIELD(member) .offset = offsetof(bench_case, member), .bytes = sizeof(((bench_case *)0)->member)
#define WORD(list) .kind = KIND_WORD, .words = list
#define INTEGER(from, to) .kind = KIND_INTEGER, .low = from, .high = to
#define REAL(from, to) .kind = KIND_REAL, .least = from, .most = to
#define FACTOR(list, from, to) .kind = KIND_FACTOR, .words = list, .least = from, .most = to
#define PEAK FACTOR(none_names, 0.001, 1e6), .fallback = "none"

enum { DEGREE = 32768, WIDTH = 16777216, MANY = 2147483647 };

static const key_row table[KEYS] = {
    [KEY_SIZE] = { "size", WORD(size_names), .fallback = "auto", FIELD(size),
                   .explanation = "full: the recipe's model; small: about 10 million parameters; check: the check "
                                  "model; auto: full where the recipe has a row and it fits, small on the host" },
    [KEY_PRECISION] = { "precision", WORD(precision_names), .fallback = "bf16", FIELD(precision),
                        .explanation = "fp32 makes everything FP32; bf16 and fp8 keep what the recipe keeps (--list)" },
    [KEY_FP8_SCALE] = { "fp8_scale", WORD(fp8_scale_names), .fallback = "power_of_two", FIELD(fp8_scale),
                        .explanation = "of a tensor: its format's largest number / its amax, the largest magnitude "
                                       "(fp8_scaling), rounded down to a power of two, or exact, as the recipes'" },
    [KEY_FP8_SCALING] = { "fp8_scaling", WORD(fp8_scaling_names), .fallback = "delayed", FIELD(fp8_scaling),
                          .explanation = "delayed: scales of a step follow from the amaxes of up to 1024 steps before; "
                                         "current: from the microbatch's own, over tensor and context ranks" },
    [KEY_BACKEND] = { "backend", WORD(backend_names), .fallback = "auto", FIELD(backend),
                      .explanation = "auto: cuda where every rank has a usable GPU, else host" },
    [KEY_RECORD] = { "record", .kind = KIND_PATH, .fallback = "gsw.h5", FIELD(record),
                     .explanation = "HDF5 file, one for the whole run, or none" },
    [KEY_STEPS] = { "steps", INTEGER(1, 1000000), .fallback = "50", FIELD(steps), .explanation = "timed steps" },
    [KEY_WARMUP] = { "warmup", INTEGER(0, 1000000), .fallback = "0", FIELD(warmup),
                     .explanation = "untimed steps before them" },
    [KEY_MINUTES] = { "minutes", FACTOR(none_names, 0.01, 100000.0), .fallback = "none", FIELD(minutes),
                      .explanation =
                          "a soak: the timed steps go on until so many have passed and there were at least "
                          "steps of them; it needs warmup of 2 or more, whose time says how many to keep room for" },
    [KEY_REPEATS] = { "repeats", INTEGER(1, REPEATS_MOST), .fallback = "1", FIELD(repeats),
                      .explanation =
                          "a case is run so many times; the means must agree, or the last one is not valid" },
    [KEY_SEED] = { "seed", INTEGER(0, 4294967295), .takes_word = true, .fallback = "1", FIELD(seed),
                   .explanation = "determines the initial weights and the tokens; a word counts as the first 8 hex "
                                  "digits of its SHA-256: a site that chooses a word gets losses of its own" },
    [KEY_TOKENS] = { "tokens", WORD(tokens_names), .rule = "recipe's", FIELD(tokens),
                     .explanation = "uniform draws, documents that count up, or all zero" },
    [KEY_TENSOR] = { "tensor", INTEGER(1, DEGREE), .rule = "recipe's, or 1", FIELD(layout.degree[AXIS_TENSOR]),
                     .explanation = "tensor-parallel degree, with sequence parallelism" },
    [KEY_PIPELINE] = { "pipeline", INTEGER(1, DEGREE), .rule = "recipe's, or 1", FIELD(layout.degree[AXIS_PIPELINE]),
                       .explanation = "pipeline stages" },
    [KEY_CONTEXT] = { "context", INTEGER(1, DEGREE), .rule = "recipe's, or 1", FIELD(layout.degree[AXIS_CONTEXT]),
                      .explanation = "context-parallel degree" },
    [KEY_EXPERT] = { "expert", INTEGER(1, DEGREE), .rule = "recipe's, or 1", FIELD(layout.expert),
                     .explanation = "expert-parallel degree, across context and data" },
    [KEY_DATA] = { "data", INTEGER(1, DEGREE), .rule = "rest of ranks", FIELD(layout.degree[AXIS_DATA]),
                   .explanation = "data-parallel degree; ranks left over sit the case out" },
    [KEY_SHARD] = { "shard", INTEGER(1, DEGREE), .rule = "recipe's, or 1", FIELD(layout.degree[AXIS_SHARD]),
                    .explanation = "fully sharded data-parallel degree" },
    [KEY_CHUNKS_PER_STAGE] = { "chunks_per_stage", INTEGER(1, DEGREE), .rule = "recipe's, or 1",
                               FIELD(layout.chunks_per_stage), .explanation = "model chunks of each pipeline stage" },
    [KEY_CAPACITY] = { "capacity", FACTOR(none_names, 0.01, 1000.0), .fallback = "1", FIELD(capacity),
                       .explanation =
                           "rows of an expert over an even share of a rank's choices in a microbatch; beyond "
                           "them those of least weight are dropped; none: rows for all tokens, most of "
                           "them empty: nothing is dropped, time and memory grow several times" },
    [KEY_MICRO_BATCH] = { "micro_batch", INTEGER(1, 65535), .rule = "recipe's, or 1", FIELD(micro_batch),
                          .explanation = "sequences of one microbatch on one data rank" },
    [KEY_GLOBAL_BATCH] = { "global_batch", INTEGER(1, MANY), .rule = "recipe's, or *", FIELD(global_batch),
                           .explanation = "sequences of one step; * data x shard x micro_batch x max(2, pipeline)" },
    [KEY_SEQUENCE] = { "sequence", INTEGER(1, WIDTH), .rule = "by size", FIELD(model.sequence),
                       .explanation = "tokens of one sequence" },
    [KEY_LAYERS] = { "layers", INTEGER(1, 100000), .rule = "by size", FIELD(model.layers),
                     .explanation =
                         "transformer layers; with size = full the recipe's row of this depth, if there is one" },
    [KEY_HIDDEN] = { "hidden", INTEGER(2, WIDTH), .rule = "by size", FIELD(model.hidden),
                     .explanation = "width; the head dim is hidden / heads" },
    [KEY_FFN] = { "ffn", INTEGER(2, WIDTH), .rule = "by size", FIELD(model.ffn),
                  .explanation = "inner width of the MLP" },
    [KEY_HEADS] = { "heads", INTEGER(1, WIDTH), .rule = "by size", FIELD(model.heads), .explanation = "query heads" },
    [KEY_KV_HEADS] = { "kv_heads", INTEGER(1, WIDTH), .rule = "by size", FIELD(model.kv_heads),
                       .explanation = "key-value heads" },
    [KEY_VOCABULARY] = { "vocabulary", INTEGER(4, 1073741824), .rule = "by size", FIELD(model.vocabulary),
                         .explanation = "tokens known, before padding to a multiple of 128 x tensor" },
    [KEY_RECOMPUTE] = { "recompute", WORD(recompute_names), .rule = "recipe's", FIELD(recompute),
                        .explanation =
                            "what the backward pass computes again instead of keeping it; attention_mlp: norms, "
                            "attention and MLP (gate and up; no backward needs what down puts out); elementwise: "
                            "norms and the MLP's activation; attention_elementwise: these and attention" },
    [KEY_SHARDING] = { "sharding", WORD(sharding_names), .rule = "recipe's", FIELD(sharding),
                       .explanation = "optimizer: master weights and moments are spread over the data x context ranks; "
                                      "the default is none where there is but one" },
    [KEY_SCHEDULE] = { "schedule", WORD(schedule_names), .rule = "by chunks", FIELD(schedule),
                       .explanation =
                           "order of forwards and backwards; interleaved if chunks_per_stage > 1, else 1f1b" },
    [KEY_STRIPS] = { "strips", INTEGER(1, STRIPS_MOST), .rule = "by rows", FIELD(strips),
                     .explanation = "in which a tensor rank's positions are transferred, one beside the product of "
                                    "another; the most of 4, 2, 1 that leaves a product 1024 rows; fewer where strips "
                                    "x tensor does not divide the positions" },
    [KEY_CONTEXT_GRADIENTS] = { "context_gradients", WORD(context_gradient_names), .fallback = "fp32",
                                FIELD(context_gradients),
                                .explanation = "how a context rank's sums of the gradients of keys and values travel; "
                                               "with precision = fp32 always so" },
    [KEY_OVERLAP] = { "overlap", WORD(overlap_names), .fallback = "on", FIELD(overlap),
                      .explanation = "transfers run beside computation; off: beside none but a pipeline's sends" },
    [KEY_WEIGHT_GRADIENT_QUEUE] = { "weight_gradient_queue", WORD(overlap_names), .fallback = "on",
                                    FIELD(weight_gradient_queue),
                                    .explanation = "weight gradients have a queue of their own, behind all other "
                                                   "computation" },
    [KEY_ORDER] = { "order", WORD(order_names), .fallback = "submitted", FIELD(order),
                    .explanation = "of operations on the host; hostile: any order that the waits allow" },
    [KEY_ORDER_SEED] = { "order_seed", INTEGER(0, 4294967295), .rule = "seed", FIELD(order_seed),
                         .explanation = "of the hostile order" },
    [KEY_SHARE_DEVICES] = { "share_devices", WORD(answer_names), .fallback = "no", FIELD(share_devices),
                            .explanation = "yes: several ranks may run on one GPU; the result is then not valid" },
    [KEY_DETERMINISTIC] = { "deterministic", WORD(answer_names), .fallback = "no", FIELD(deterministic),
                            .explanation = "yes: the same bits in every run, on GPUs too (the host's always are)" },
    [KEY_ATTENTION] = { "attention", WORD(attention_names), .fallback = "auto", FIELD(attention),
                        .explanation = "on GPUs; auto: the library's where it is there, else own kernels; own: those" },
    [KEY_TRANSFER_SMS] = { "transfer_sms", INTEGER(0, 64), .rule = "by tensor", FIELD(transfer_sms),
                           .explanation =
                               "multiprocessors of a GPU for transfers made by kernels: these take no more, and "
                               "products leave them so many; 0: they share all. By default 16 if tensor > 1, "
                               "else 0; then products leave none where copy engines move what is beside them" },
    [KEY_PEAK_BF16] = { "peak_bf16", PEAK, FIELD(peak_bf16),
                        .explanation = "TFLOP/s of dense BF16 products of one device, for MFU, where the program knows "
                                       "none of that name; where it does, its own is taken, and the report says so" },
    [KEY_PEAK_FP8] = { "peak_fp8", PEAK, FIELD(peak_fp8), .explanation = "the same of FP8" },
    [KEY_LEARNING_RATE] = { "learning_rate", REAL(0.0, 100.0), .rule = "by size", FIELD(optimizer.learning_rate),
                            .explanation = "largest; full: the recipe's, and the smallest keeps its ratio to it; "
                                           "small, check: 1e-3, constant" },
    [KEY_LEARNING_RATE_WARMUP] = { "learning_rate_warmup", INTEGER(0, 1000000), .rule = "by size",
                                   FIELD(optimizer.learning_rate_warmup),
                                   .explanation = "steps until it is reached; full: the recipe's; small, check: 0" },
    [KEY_CHECK] = { "check", WORD(check_names), .fallback = "full", FIELD(check),
                    .explanation =
                        "model: train the check model before the steps and compare it with its references; full: "
                        "also replay one or two steps after them, and check every form of matrix product, a sample of "
                        "the "
                        "other operations, and transfers" },
    [KEY_EXPECT] = { "expect", FACTOR(expect_names, 1e-3, 1e15), .fallback = "none", FIELD(expect),
                     .explanation =
                         "tokens/s that a case is accepted with, if it is PASSED and VALID; reference: those "
                         "of the published cell. The report then ends in ACCEPTED or NOT ACCEPTED" },
    [KEY_TOLERANCE] = { "tolerance", REAL(0.0, 0.99), .fallback = "0.05", FIELD(tolerance),
                        .explanation = "part of expect that may be missing; by so much published BF16 steps of one "
                                       "model differ between its fewest and its most GPUs (0.2 to 5 %)" },
    [KEY_FAULT] = { "fault", .kind = KIND_FAULT, .fallback = "none", FIELD(fault),
                    .explanation = "planted at the NTH execution of OPERATION in a step on RANK: drop all_reduce 3 1" },
    [KEY_STALL_SECONDS] = { "stall_seconds", REAL(0.1, 86400.0), .fallback = "60", FIELD(stall_seconds),
                            .explanation = "without any progress, after which all ranks end with status 86" },
    [KEY_TIME_LIMIT] = { "time_limit", FACTOR(none_names, 1.0, 1e7), .fallback = "none", FIELD(time_limit),
                         .explanation = "seconds from the run's begin, after which it stops as on SIGTERM; the "
                                        "launcher's limit holds, too, where it is known" },
};

const key_row *key_at(key_id key) { return &table[key]; }

bool key_sweeps(key_id key)
{
    key_kind kind = table[key].kind;
    return kind != KIND_FAULT && kind != KIND_PATH;
}

bool key_is_of_run(key_id key) { return key == KEY_RECORD; }

key_id key_find(text_view name)
{
    key_id key = 0;
    while (key < KEYS && !text_equal(name, table[key].name)) key++;
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

static void print_row(key_id key)
{
    char values[KEY_SENTENCE], built[KEY_SENTENCE] = "";
    key_values(key, values);
    const key_row *row = key_at(key);
    if (row->built) snprintf(built, sizeof built, "; trained so far: %s", row->built);
    say("%-20s  %-28s  %-15s  %s%s\n", row->name, values, row->fallback ? row->fallback : row->rule, row->explanation,
        built);
}

static void print_operations(void)
{
    say("Operations a fault can name:");
    for (const char *const *name = operation_names; *name; name++) say(" %s", *name);
    say("\n");
}

static void print_head(void) { say("%-20s  %-28s  %-15s  %s\n", "key", "values", "default", "meaning"); }

void key_print(key_id key)
{
    print_head();
    print_row(key);
    if (key == KEY_FAULT) print_operations();
}

void keys_print(void)
{
    print_head();
    for (key_id key = 0; key < KEYS; key++) print_row(key);
    say("\nA list of values, separated by blanks, sweeps; the later key of this table varies faster (not record, "
        "fault).\n");
    print_operations();
}
