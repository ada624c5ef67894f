/* The rows: what a case is and what it leaves. */
#include "bench/result/fields.h"
#include "base/say.h"
#include "bench/result/rules.h"

/* Where a value lies: in the case, in its result, in a check; in every entry of an array or of a list. */
#define GIVEN(member) .offset = offsetof(bench_case, member)
#define RESULT(member) .offset = offsetof(case_result, member)
#define CHECK(member) .offset = offsetof(check_result, member)
#define EACH(array, member)                                                                                            \
    .offset = offsetof(case_result, array[0] member), .stride = sizeof(((case_result *)0)->array[0])
#define LIST(list) .listed = true, .offset = offsetof(case_result, list), .stride = sizeof(*((case_result *)0)->list)
#define SPAN(member) LIST(spans), .in_list = offsetof(span, member), .per = PER_SPAN
#define RANK_TABLE(table) PER_STEP, .across = PER_RANK, LIST(rank_table[table])
#define PACE(member) LIST(pace), .in_list = offsetof(rank_pace, member), .per = PER_RANK
#define DEVICE(when, member)                                                                                           \
    .listed = true, .offset = offsetof(case_result, devices), .stride = 2 * sizeof(machine_device),                    \
    .in_list = (when) * sizeof(machine_device) + offsetof(machine_device, member), .per = PER_RANK

#define CLOCK(member) LIST(clocks), .in_list = offsetof(rank_clocks, member), .per = PER_RANK
#define SAMPLE(member) LIST(samples.list), .in_list = offsetof(ranked_sample, member), .per = PER_SAMPLE

static const char *init_word(const void *at) { return *(const init_kind *)at == INIT_FAN_IN ? "fan_in" : "std"; }
static const char *verdict_word(const void *at) { return verdict_words[*(const verdict *)at]; }
static const char *validity_word(const void *at) { return *(const bool *)at ? "VALID" : "NOT VALID"; }
static const char *rules_word(const void *at) { return at ? RULES_VERSION : ""; }
static const char *acceptance_word(const void *at) { return acceptance_words[*(const acceptance *)at]; }
static const char *operation_word(const void *at) { return op_kind_name(*(const op_kind *)at); }
static const char *phase_word(const void *at) { return phase_name(*(const phase *)at); }
static const char *fp8_word(const void *at) { return fp8_kind_name(*(const fp8_kind *)at); }
static const char *memory_word(const void *at) { return arena_kind_name(*(const arena_kind *)at); }

/* Beside the deck's keys: what they and the catalogue make of a case. */
static const field of_case[] = {
    { "case", NULL, "number in the deck, from 1, sweeps unrolled", FIELD_INTEGER, GIVEN(number) },
    { "workload", NULL, "name in the catalogue", FIELD_TEXT, GIVEN(workload) },
    { "model_name", NULL, "as the report says it", FIELD_TEXT, GIVEN(model_name) },
    { "backend_reason", NULL, "why this backend", FIELD_TEXT, GIVEN(backend_reason) },
    { "repeat", NULL, "which of its repeats, from 1", FIELD_INTEGER, GIVEN(repeat) },
    { "deck_line", NULL, "of its section", FIELD_INTEGER, GIVEN(line) },
    { "proxy", NULL, "a model smaller than the workload's", FIELD_FLAG, GIVEN(proxy) },
    { "recipe_layout", NULL, "layout, batch and way of computing are the recipe's", FIELD_FLAG, GIVEN(recipe_layout) },
    { "recipe_gpus", "1", "of the published cell whose layout it is, data-parallel to its ranks; 0: of none",
      FIELD_INTEGER, GIVEN(recipe_gpus) },
    { "idle_asked", NULL, "the deck gives the layout, and so which ranks take no part", FIELD_FLAG, GIVEN(idle_asked) },
    { "ranks", "1", "that take part", FIELD_INTEGER, GIVEN(layout.ranks) },
    { "world_ranks", "1", "of the run", FIELD_INTEGER, GIVEN(world_ranks) },
    { "microbatches", "1", "of a step on one data rank", FIELD_COUNT, GIVEN(microbatches) },
    { "head_dim", "1", "width of a head", FIELD_COUNT, GIVEN(model.head_dim) },
    { "padded_vocabulary", "1", "rows of the embedding", FIELD_COUNT, GIVEN(model.padded_vocabulary) },
    { "rope_base", "1", "of the rotary positions", FIELD_REAL, GIVEN(model.rope_base) },
    { "rope_scaling", NULL, "Llama 3.1's, for long contexts", FIELD_FLAG, GIVEN(model.rope_scaling) },
    { "norm_epsilon", "1", "added to the mean square", FIELD_REAL, GIVEN(model.norm_epsilon) },
    { "experts", "1", "MLPs of a layer; 0: one", FIELD_COUNT, GIVEN(model.experts) },
    { "active_experts", "1", "of them, that a token passes", FIELD_COUNT, GIVEN(model.active) },
    { "balance", "1", "coefficient of the loss that keeps the experts' loads alike", FIELD_REAL, GIVEN(model.balance) },
    { "position_rows", "1", "of learned positions; 0: rotary", FIELD_COUNT, GIVEN(model.position_rows) },
    { "rope_fraction", "1", "of the head dim that is rotated", FIELD_REAL, GIVEN(model.rope_fraction) },
    { "linear_biases", NULL, "of the products in a layer", FIELD_FLAG, GIVEN(model.linear_biases) },
    { "tied_embedding", NULL, "the head is the embedding", FIELD_FLAG, GIVEN(model.tied_embedding) },
    { "init_std", "1", "of initial weights", FIELD_REAL, GIVEN(model.init_std) },
    { "output_init_std", "1", "of attention's output and the MLP's down", FIELD_REAL, GIVEN(model.output_init_std) },
    { "init", NULL, "std; fan_in: both are divided by sqrt(fan-in)", FIELD_WORD, GIVEN(model.init), .word = init_word },
    { "labels_next_token", NULL, "labels are the next tokens", FIELD_FLAG, GIVEN(model.labels_next_token) },
    { "recipe_flops_per_sequence", "flop", "by the recipe's formula", FIELD_REAL, GIVEN(recipe_flops_per_sequence) },
    { "model_flops_per_sequence", "flop", "causal attention", FIELD_REAL, GIVEN(model_flops_per_sequence) },
    { "recipe_block_flops_per_sequence", "flop", "of the recipe's, the blocks' products", FIELD_REAL,
      GIVEN(recipe_block_flops_per_sequence) },
    { "model_block_flops_per_sequence", "flop", "of the others", FIELD_REAL, GIVEN(model_block_flops_per_sequence) },
    { "metric_steps", "1", "last steps, whose mean is the recipe's step time", FIELD_COUNT, GIVEN(metric_steps) },
    { "beta1", "1", "AdamW's", FIELD_REAL, GIVEN(optimizer.beta1) },
    { "beta2", "1", "AdamW's", FIELD_REAL, GIVEN(optimizer.beta2) },
    { "adam_epsilon", "1", "AdamW's", FIELD_REAL, GIVEN(optimizer.epsilon) },
    { "weight_decay", "1", "AdamW's", FIELD_REAL, GIVEN(optimizer.decay) },
    { "clip", "1", "gradient norm allowed; 0: any", FIELD_REAL, GIVEN(optimizer.clip) },
    { "learning_rate_minimum", "1", "that the cosine ends at", FIELD_REAL, GIVEN(optimizer.learning_rate_minimum) },
    { "learning_rate_constant", NULL, "no cosine", FIELD_FLAG, GIVEN(optimizer.learning_rate_constant) },
    { "learning_rate_from_zero", NULL, "the first step's is 0", FIELD_FLAG, GIVEN(optimizer.learning_rate_from_zero) },
    { "decays_vectors", NULL, "weight decay holds for norms too", FIELD_FLAG, GIVEN(optimizer.decays_vectors) },
};

static const field of_verdict[] = {
    { "verdict", NULL, "PASSED, FAILED, SKIPPED, INTERRUPTED", FIELD_WORD, RESULT(verdict), .word = verdict_word },
    { "validity", NULL, "VALID, NOT VALID", FIELD_WORD, RESULT(valid), .word = validity_word },
    { "rules", NULL, "version of the run rules that say what is VALID", FIELD_WORD, RESULT(valid), .word = rules_word },
    { "skipped", NULL, "why, if it was", FIELD_TEXT, RESULT(skipped) },
    { "expected_tokens_per_second", "tokens/s", "by the deck, or as published for the device", FIELD_REAL,
      RESULT(expected_tokens_per_second) },
    { "acceptance", NULL, "ACCEPTED, NOT ACCEPTED; empty: nothing is expected", FIELD_WORD, RESULT(acceptance),
      .word = acceptance_word },
    { "not_accepted", NULL, "why", FIELD_TEXT, RESULT(not_accepted) },
};

/* Step times are those of the slowest rank; seconds of rank 0 are of the timed steps. */
static const field of_results[] = {
    { "median_seconds", "s", "of the timed steps", FIELD_REAL, RESULT(median_seconds) },
    { "minimum_seconds", "s", "the fastest timed step's", FIELD_REAL, RESULT(minimum_seconds) },
    { "maximum_seconds", "s", "the slowest timed step's", FIELD_REAL, RESULT(maximum_seconds) },
    { "spread", "1", "of the timed steps' times, p90 / p10", FIELD_REAL, RESULT(spread) },
    { "drift", "1", "of these, median of the last half / of the first half", FIELD_REAL, RESULT(drift) },
    { "recipe_seconds", "s", "by the recipe's rule: mean of the last metric_steps", FIELD_REAL,
      RESULT(recipe_seconds) },
    { "repeated", "1", "repeats of the case up to this one, whose medians are compared; 0: it is run once",
      FIELD_INTEGER, RESULT(repeated.count) },
    { "repeated_median_seconds", "s", "median of their medians", FIELD_REAL, RESULT(repeated.median) },
    { "repeated_minimum_seconds", "s", "the smallest of them", FIELD_REAL, RESULT(repeated.minimum) },
    { "repeated_maximum_seconds", "s", "the largest of them", FIELD_REAL, RESULT(repeated.maximum) },
    { "repeated_spread", "1", "largest over smallest, less 1", FIELD_REAL, RESULT(repeated.spread) },
    { "tokens_per_step", "tokens", "of all ranks", FIELD_COUNT, RESULT(tokens_per_step) },
    { "tokens_per_second", "tokens/s", "by the median", FIELD_REAL, RESULT(tokens_per_second) },
    { "tokens_per_second_per_gpu", "tokens/s", "a rank is a GPU", FIELD_REAL, RESULT(tokens_per_second_per_gpu) },
    { "tflops_per_gpu", "Tflop/s", "by the recipe's formula and the median", FIELD_REAL, RESULT(tflops_per_gpu) },
    { "recipe_mfu", "1", "part of the device's peak, by the recipe's formula", FIELD_REAL, RESULT(recipe_mfu) },
    { "model_mfu", "1", "part of the device's peak, causal attention", FIELD_REAL, RESULT(model_mfu) },
    { "recipe_ceiling", "1",
      "FP8: the largest MFU with attention and LM head at the BF16 peak, by the recipe's formula", FIELD_REAL,
      RESULT(recipe_ceiling) },
    { "model_ceiling", "1", "the same by causal attention", FIELD_REAL, RESULT(model_ceiling) },
    { "recipe_reached", "1", "recipe_mfu of recipe_ceiling", FIELD_REAL, RESULT(recipe_reached) },
    { "model_reached", "1", "model_mfu of model_ceiling", FIELD_REAL, RESULT(model_reached) },
    { "days_per_trillion_tokens", "d", "by the median; not of a proxy", FIELD_REAL, RESULT(days_per_trillion) },
    { "total_seconds", "s", "the case, checks included", FIELD_REAL, RESULT(total_seconds) },
    { "idle_seconds", "s", "rank 0's compute queue ran nothing", FIELD_REAL, RESULT(tally.idle_seconds) },
    { "dispatch_seconds", "s", "rank 0 submitted operations", FIELD_REAL, RESULT(tally.dispatch_seconds) },
    { "arena_bytes", "bytes", "of rank 0's model", FIELD_BYTES, RESULT(arena_bytes) },
    { "outside_bytes", "bytes", "resident outside it, the most of a rank", FIELD_REAL, RESULT(outside_bytes) },
    { "own_outside_bytes", "bytes", "of these without memory that ranks share", FIELD_REAL, RESULT(own_outside_bytes) },
    { "device_outside_bytes", "bytes", "on a device outside arenas", FIELD_REAL, RESULT(device_outside_bytes) },
    { "device", NULL, "its name, if all ranks' have the same", FIELD_TEXT, RESULT(device) },
    { "throttled", NULL, "first rank whose device was, and why", FIELD_TEXT, RESULT(throttled) },
    { "clocks_unknown", NULL, "first rank whose device does not tell", FIELD_TEXT, RESULT(clocks_unknown) },
    { "node_ranks", "1", "of the run, on the node that has most", FIELD_INTEGER, RESULT(load.node_ranks) },
    { "node_cores", "1", "of the node that has fewest", FIELD_INTEGER, RESULT(load.cores) },
    { "rank_threads", "1", "of the rank that has most", FIELD_INTEGER, RESULT(load.threads) },
    { "quota", "1", "cores that the tightest control group pays for; infinity: no limit", FIELD_REAL,
      RESULT(load.quota) },
    { "device_ranks", "1", "on the device that has most", FIELD_INTEGER, RESULT(load.sharing) },
    { "clock_wrong", NULL, "first rank whose clock is, by how much, and against which", FIELD_TEXT,
      RESULT(clock_wrong) },
    { "energy", "J", "of the timed steps", FIELD_REAL, RESULT(samples.joules) },
    { "energy_per_token", "J", "of the timed steps", FIELD_REAL, RESULT(joules_per_token) },
    { "energy_method", NULL, "whose energy it is, and who tells it", FIELD_NAME, RESULT(samples.method) },
    { "others_cores", "1", "that others kept busy, of those of a node's ranks; the most of a node", FIELD_REAL,
      RESULT(samples.others_cores) },
    { "others_of_cores", "1", "that this node's ranks may use", FIELD_INTEGER, RESULT(samples.node_cores) },
    { "sample_seconds", "s", "between two samples", FIELD_REAL, RESULT(samples.every) },
    { "sampling_share", "1", "of the timed steps, a core's time for sampling; the most of a rank", FIELD_REAL,
      RESULT(samples.cost_share) },
    { "nodes", "1", "with ranks of the case", FIELD_INTEGER, RESULT(placement.nodes) },
    { "node_ranks_least", "1", "of the case, on a node", FIELD_INTEGER, RESULT(placement.node_ranks_least) },
    { "node_ranks_most", "1", "of the case, on a node", FIELD_INTEGER, RESULT(placement.node_ranks_most) },
    { "tensor_across", NULL, "a tensor group spans nodes", FIELD_FLAG, RESULT(placement.across[AXIS_TENSOR]) },
    { "placement", NULL, "which axes lie within a node, and which span nodes", FIELD_TEXT, RESULT(placement.text) },
    { "libraries_differ", NULL, "first rank that has loaded other libraries than rank 0, and which", FIELD_TEXT,
      RESULT(libraries_differ) },
    { "engines", NULL, "what attention and products ran with", FIELD_TEXT, RESULT(engines) },
    { "passed", NULL, "the verdict is PASSED", FIELD_FLAG, RESULT(passed) },
    { "valid", NULL, "it may be compared with other machines", FIELD_FLAG, RESULT(valid) },
    { "comparable", NULL, "VALID, and its recipe has published a cell of its layout", FIELD_FLAG, RESULT(comparable) },
    { "comparison", NULL, "which cell, or why it is not comparable", FIELD_TEXT, RESULT(comparison) },
    { "fail_reasons", NULL, "why it FAILED", FIELD_TEXT, PER_FAIL_REASON, EACH(fail_reason, ) },
    { "invalid_reasons", NULL, "why it is NOT VALID", FIELD_TEXT, PER_INVALID_REASON, EACH(invalid_reason, ) },
    { "completed", "1", "steps that finished", FIELD_COUNT, RESULT(completed) },
    { "interrupted", NULL, "what asked it to stop before its end; empty: nothing", FIELD_TEXT, RESULT(stopped_by) },
    { "hazards", "1", "pairs of operations that nothing orders", FIELD_COUNT, RESULT(hazards) },
    { "hazard", NULL, "the first", FIELD_TEXT, RESULT(hazard) },
    { "faults", "1", "executions that a planted fault struck, checks included", FIELD_COUNT, RESULT(faults) },
    { "struck", NULL, "the operation that it struck in the timed steps", FIELD_TEXT, RESULT(struck) },
    { "shadowed_operations", "1", "compared with the host's", FIELD_COUNT, RESULT(shadow.operations) },
    { "shadowed_elements", "1", "compared with the host's", FIELD_COUNT, RESULT(shadow.elements) },
    { "shadowed_mismatches", "1", "operations that differ", FIELD_COUNT, RESULT(shadow.failed) },
    { "shadowed_left_out", "1", "operations too large to compare", FIELD_COUNT, RESULT(shadow.left_out) },
    { "shadowed_worst", "1", "largest difference, of what is allowed", FIELD_REAL, RESULT(shadow.worst) },
};

/* Warm-up first. */
static const field of_steps[] = {
    { "step", "1", "from 0", FIELD_ROW, .per = PER_STEP },
    { "step_seconds", "s", "of the slowest rank", FIELD_REAL, PER_STEP, LIST(step_seconds) },
    { "losses", "1", "mean of the global batch", FIELD_REAL, PER_STEP, LIST(loss) },
    { "gradient_norms", "1", "before clipping", FIELD_REAL, PER_STEP, LIST(gradient_norm) },
    { "learning_rates", "1", "as used", FIELD_REAL, PER_STEP, LIST(learning_rate) },
    { "balance_losses", "1", "of experts, summed over layers, mean of the global batch; not in losses", FIELD_REAL,
      PER_STEP, LIST(routed[ROUTED_BALANCE]) },
    { "choices_dropped", "1", "of experts, beyond the capacity, in all layers", FIELD_REAL, PER_STEP,
      LIST(routed[ROUTED_DROPS]) },
    { "expert_loads_least", "1", "choices of the expert of a layer that has least, before dropping", FIELD_REAL,
      PER_STEP, LIST(routed[ROUTED_LEAST]) },
    { "expert_loads_most", "1", "of the one that has most", FIELD_REAL, PER_STEP, LIST(routed[ROUTED_MOST]) },
    { "expert_loads_variation", "1", "standard deviation over all layers' experts / mean", FIELD_REAL, PER_STEP,
      LIST(routed[ROUTED_VARIATION]) },
};

static const field of_ranks[] = {
    { "step", "1", "from 0", FIELD_ROW, .per = PER_STEP },
    { "rank", "1", "from 0", FIELD_ROW, .per = PER_RANK },
    { "rank_seconds", "s", "each rank's step", FIELD_REAL, PER_STEP, .across = PER_RANK, LIST(rank_seconds) },
    { "computing_seconds", "s", "of operations that waited for nobody", FIELD_REAL, RANK_TABLE(RANK_COMPUTING) },
    { "run_delay_seconds", "s", "its processor ran others while it computed; host", FIELD_REAL,
      RANK_TABLE(RANK_RUN_DELAY) },
    { "late_seconds", "s", "another of its groups was longer in collectives", FIELD_REAL, RANK_TABLE(RANK_LATE) },
    { "waiting_tensor", "s", "nothing could run but transfers on the axis", FIELD_REAL,
      RANK_TABLE(RANK_WAITING_TENSOR) },
    { "waiting_context", "s", "the same", FIELD_REAL, RANK_TABLE(RANK_WAITING_CONTEXT) },
    { "waiting_expert", "s", "the same", FIELD_REAL, RANK_TABLE(RANK_WAITING_EXPERT) },
    { "waiting_shard", "s", "the same", FIELD_REAL, RANK_TABLE(RANK_WAITING_SHARD) },
    { "waiting_pipeline", "s", "the same", FIELD_REAL, RANK_TABLE(RANK_WAITING_PIPELINE) },
    { "waiting_gradient", "s", "the same, data x context", FIELD_REAL, RANK_TABLE(RANK_WAITING_GRADIENT) },
    { "waiting_all", "s", "the same, sums of a few numbers over all ranks or all that hold a model", FIELD_REAL,
      RANK_TABLE(RANK_WAITING_ALL) },
    { "computing_flops", "flop", "that the rank was given in all steps", FIELD_REAL, PACE(flops) },
    { "computing_bytes", "bytes", "of operands, of operations that it was given", FIELD_REAL, PACE(bytes) },
    { "peers", "1", "other ranks that were given the same", FIELD_INTEGER, PACE(peers) },
    { "excess", "1", "of its own computing over its peers', of the timed steps", FIELD_REAL, PACE(excess) },
    { "excess_error", "1", "standard error of that", FIELD_REAL, PACE(error) },
};

/* As the timed steps begin, and as they end. */
static const field of_devices[] = {
    { "clock_at_begin", "Hz", "each rank's", FIELD_KNOWN, DEVICE(0, clock_hertz) },
    { "clock_at_end", "Hz", "each rank's", FIELD_KNOWN, DEVICE(1, clock_hertz) },
    { "power_at_begin", "W", "each rank's", FIELD_KNOWN, DEVICE(0, power_watts) },
    { "power_at_end", "W", "each rank's", FIELD_KNOWN, DEVICE(1, power_watts) },
    { "throttled_at_begin", NULL, "why", FIELD_TEXT, DEVICE(0, throttle_reasons) },
    { "throttled_at_end", NULL, "why", FIELD_TEXT, DEVICE(1, throttle_reasons) },
};

/* Of all steps. What is told of a clock: bench/monitor/clocks.h. */
static const field of_clocks[] = {
    { "rank", "1", "from 0", FIELD_ROW, .per = PER_RANK },
    { "kernel_seconds", "s", "that its steps took by the kernel's clock", FIELD_REAL, CLOCK(kernel_seconds) },
    { "uncertain_seconds", "s", "of these, while clocks were read", FIELD_REAL, CLOCK(uncertain) },
    { "clock_error", "1", "part of the time passed that its clock gained or lost by the end of a step, the largest",
      FIELD_REAL, CLOCK(error) },
    { "uptime_seconds", "s", "by /proc/uptime, around its steps", FIELD_REAL, CLOCK(uptime_seconds) },
    { "uptime_clock", "s", "as long by its clock", FIELD_REAL, CLOCK(uptime_clock) },
    { "within_seconds", "s", "by its clock, between the barriers before and behind the steps", FIELD_REAL,
      CLOCK(within) },
    { "around_seconds", "s", "by its clock, the barriers included", FIELD_REAL, CLOCK(around) },
};

/* Of the timed steps; what counts, counts from a rank's first sample. Of the node: its first rank's alone. */
static const field of_samples[] = {
    { "rank", "1", "whose", FIELD_INTEGER, SAMPLE(rank) },
    { "seconds", "s", "since the rank's first", FIELD_REAL, SAMPLE(now.seconds) },
    { "clock", "Hz", "of the device", FIELD_REAL, SAMPLE(now.clock_hertz) },
    { "temperature", "degC", "of the device", FIELD_REAL, SAMPLE(now.temperature) },
    { "power", "W", "of the device", FIELD_REAL, SAMPLE(now.power_watts) },
    { "device_energy", "J", "of the device", FIELD_REAL, SAMPLE(now.device_joules) },
    { "clock_events", "1", "NVML's bits of why the clock is what it is; -1: not told", FIELD_INTEGER,
      SAMPLE(now.events) },
    { "core_clock", "Hz", "mean of up to 16 cores of the node", FIELD_REAL, SAMPLE(now.core_hertz) },
    { "load", "1", "processes and threads of the node that run or could run", FIELD_REAL, SAMPLE(now.load) },
    { "busy_seconds", "s", "of the cores that the node's ranks may use", FIELD_REAL, SAMPLE(now.busy_seconds) },
    { "package_energy", "J", "of the node's processors", FIELD_REAL, SAMPLE(now.package_joules) },
    { "own_seconds", "s", "of cores, that the rank used", FIELD_REAL, SAMPLE(now.own_seconds) },
};

/* Rank 0's: counts of all steps, seconds of the timed ones. */
static const field of_phases[] = {
    { "name", NULL, "of the phase", FIELD_LABEL, PER_PHASE, .word = phase_word },
    { "seconds", "s", "of operations that compute", FIELD_REAL, PER_PHASE, EACH(tally.phase_seconds, ) },
};
static const field of_operations[] = {
    { "name", NULL, "of the kind of operation", FIELD_LABEL, PER_OPERATION, .word = operation_word },
    { "count", "1", "submitted", FIELD_COUNT, PER_OPERATION, EACH(tally.kind, .count) },
    { "flops", "flop", "that the mathematics needs", FIELD_REAL, PER_OPERATION, EACH(tally.kind, .flops) },
    { "bytes", "bytes", "of operands", FIELD_REAL, PER_OPERATION, EACH(tally.kind, .bytes) },
    { "seconds", "s", "of execution", FIELD_REAL, PER_OPERATION, EACH(tally.kind, .seconds) },
};
static const field of_transfers[] = {
    { "axis", NULL, "of the mesh", FIELD_NAME, PER_AXIS, EACH(tally.axis, .axis) },
    { "messages", "1", "submitted", FIELD_COUNT, PER_AXIS, EACH(tally.axis, .messages) },
    { "bytes", "bytes", "of operands", FIELD_REAL, PER_AXIS, EACH(tally.axis, .bytes) },
    { "exposed_seconds", "s", "in which the compute queue waited for it", FIELD_REAL, PER_AXIS,
      EACH(tally.axis, .exposed_seconds) },
};

/* Rank 0's, of the timed steps: a starved one shows. */
static const field of_transfer_kinds[] = {
    { "name", NULL, "axis and kind", FIELD_TEXT, PER_TRANSFER, EACH(tally.transfer, .name) },
    { "messages", "1", "submitted", FIELD_COUNT, PER_TRANSFER, EACH(tally.transfer, .messages) },
    { "bytes", "bytes", "one way over the rank's link", FIELD_REAL, PER_TRANSFER, EACH(tally.transfer, .bytes) },
    { "seconds", "s", "of execution, waits included", FIELD_REAL, PER_TRANSFER, EACH(tally.transfer, .seconds) },
    { "bytes_per_second", "bytes/s", "bytes of these seconds", FIELD_REAL, PER_TRANSFER,
      EACH(tally.transfer, .bytes_per_second) },
};

/* Rank 0's last step, in order of completion; seconds since its first operation began. */
static const field of_spans[] = {
    { "begin", "s", "of execution", FIELD_REAL, SPAN(begin) },
    { "end", "s", "of execution", FIELD_REAL, SPAN(end) },
    { "queue", "1", "its number", FIELD_INTEGER, SPAN(queue) },
    { "layer", "1", "-1: of none", FIELD_INTEGER, SPAN(origin.layer) },
    { "microbatch", "1", "-1: of none", FIELD_COUNT, SPAN(origin.microbatch) },
    { "operation", NULL, "its kind", FIELD_WORD, SPAN(kind), .word = operation_word },
    { "name", NULL, "of what it computes", FIELD_NAME, SPAN(origin.name) },
    { "phase", NULL, "of the step", FIELD_WORD, SPAN(origin.phase), .word = phase_word },
};

static const field of_memory[] = {
    { "name", NULL, "what it is for", FIELD_LABEL, PER_MEMORY_KIND, .word = memory_word },
    { "bytes", "bytes", "of rank 0's arena", FIELD_BYTES, PER_MEMORY_KIND, EACH(bytes_by_kind, ) },
};

/* All ranks', of the timed steps. */
static const field of_fp8[] = {
    { "name", NULL, "of the kind of tensor", FIELD_LABEL, PER_FP8_KIND, .word = fp8_word },
    { "underflowed", "1", "part of the values that became 0", FIELD_REAL, PER_FP8_KIND, EACH(fp8, .underflowed) },
    { "saturated", "1", "part that became the format's largest number", FIELD_REAL, PER_FP8_KIND,
      EACH(fp8, .saturated) },
    { "scale_least", "1", "smallest scale of a tensor", FIELD_REAL, PER_FP8_KIND, EACH(fp8, .scale_least) },
    { "scale_most", "1", "largest", FIELD_REAL, PER_FP8_KIND, EACH(fp8, .scale_most) },
};

/* Tensor number (layer x 4 + product) x 3 + kind; products in the order of a layer. */
static const field of_fp8_tensors[] = {
    { "scales", "1", "of a step and tensor: what its values were multiplied by; of current scaling the least",
      FIELD_REAL, PER_STEP, .across = PER_FP8_TENSOR, LIST(fp8_scale) },
};

static const field of_check[] = {
    { "done", NULL, "the check model was trained", FIELD_FLAG, CHECK(done) },
    { "passed", NULL, "the residual is below 16", FIELD_FLAG, CHECK(passed) },
    { "residual", "1", "the largest of the parts below: worst ratio to its limit x 16", FIELD_REAL, CHECK(residual) },
    { "loss", "1", "of losses", FIELD_REAL, CHECK(loss) },
    { "gradient_first", "1", "of the first step's gradients", FIELD_REAL, CHECK(gradient_first) },
    { "gradient_fourth", "1", "of the fourth step's gradients", FIELD_REAL, CHECK(gradient_fourth) },
    { "along", "1", "of the first step's gradients, their parts along the reference's; FP8", FIELD_REAL, CHECK(along) },
    { "weights", "1", "of the weights after it", FIELD_REAL, CHECK(weights) },
    { "routing", "1", "of the choices of experts", FIELD_REAL, CHECK(routing) },
    { "flips", "1", "choices that a reference would have made otherwise", FIELD_COUNT, CHECK(flips) },
    { "margin", "1", "of these, the largest difference of two logits", FIELD_REAL, CHECK(margin) },
    { "scales", "1", "of the scales of FP8", FIELD_REAL, CHECK(scales) },
    { "scale_flips", "1", "scales that the reference would have made otherwise", FIELD_COUNT, CHECK(scale_flips) },
    { "seconds", "s", "the check's cost", FIELD_REAL, CHECK(seconds) },
    { "worst", NULL, "parameter, step and rank of the residual", FIELD_TEXT, CHECK(worst) },
    { "faults", "1", "executions that a planted fault struck", FIELD_COUNT, CHECK(faults) },
    { "struck", NULL, "the operation that it struck", FIELD_TEXT, CHECK(struck) },
};

#define FIELDS(list) .field = list, .fields = sizeof(list) / sizeof *(list)
static const field_group groups[] = {
    { "", LINE_FLAT, .of_case = true, FIELDS(of_case) },
    { "", LINE_FLAT, FIELDS(of_verdict) },
    { "results", LINE_FLAT, FIELDS(of_results) },
    { "steps", LINE_FLAT, "step_seconds", { "step" }, FIELDS(of_steps) },
    { "ranks", LINE_ABSENT, "rank_seconds", { "step", "rank" }, FIELDS(of_ranks) },
    { "devices", LINE_ABSENT, FIELDS(of_devices) },
    { "clocks", LINE_ABSENT, FIELDS(of_clocks) },
    { "samples", LINE_ABSENT, FIELDS(of_samples) },
    { "phases", LINE_ROWS, "seconds", { "." }, FIELDS(of_phases) },
    { "operations", LINE_ROWS, "seconds", { "." }, FIELDS(of_operations) },
    { "transfers", LINE_ROWS, FIELDS(of_transfers) },
    { "transfer_kinds", LINE_ROWS, FIELDS(of_transfer_kinds) },
    { "spans", LINE_ABSENT, "end", { "begin" }, FIELDS(of_spans) },
    { "fp8", LINE_ROWS, FIELDS(of_fp8) },
    { "fp8_tensors", LINE_ABSENT, FIELDS(of_fp8_tensors) },
    { "memory", LINE_ROWS, "bytes", { "." }, FIELDS(of_memory) },
    { "check_before", LINE_OBJECT, .offset = offsetof(case_result, check[0]), FIELDS(of_check) },
    { "check_after", LINE_OBJECT, .offset = offsetof(case_result, check[1]), FIELDS(of_check) },
};

int field_groups(void) { return sizeof groups / sizeof *groups; }
const field_group *field_group_at(int i) { return &groups[i]; }

static const char *type_of(field_kind kind)
{
    switch (kind) {
    case FIELD_REAL:
    case FIELD_KNOWN: return "real";
    case FIELD_INTEGER:
    case FIELD_COUNT:
    case FIELD_BYTES:
    case FIELD_ROW: return "integer";
    case FIELD_FLAG: return "flag";
    case FIELD_TEXT:
    case FIELD_NAME:
    case FIELD_WORD:
    case FIELD_LABEL: return "text";
    }
    return "";
}

void fields_print(void)
{
    static const char row[] = "%-14s %-31s %-9s %-8s %s%s\n";
    say(row, "group", "field", "units", "type", "meaning", "");
    for (int i = 0; i < field_groups(); i++)
        for (const field *f = groups[i].field; f < groups[i].field + groups[i].fields; f++)
            say(row, groups[i].name[0] ? groups[i].name : "-", f->name, f->units ? f->units : "-", type_of(f->kind),
                f->meaning, groups[i].line == LINE_ABSENT ? " (record only)" : "");
    say("\nAnd every key of the deck (--keys), as the case used it. The record has a group of datasets for each group, "
        "and\nattributes of the case for -. The line XGSW_RESULT has the fields of -, results and steps side by side, "
        "the others\nin objects of their group's name; rows of zeros are left out there.\n"
        "chain_head, the chain's link behind a case, ends the line, and is an attribute of the case.\n");
}
