/* Fields with several values per case: steps, ranks, devices, samples, operations, transfers, checks. */
#include "bench/facts/fields.h"
#include "model/fp8.h"

/* Place of a value: in a check, in a checkpoint, or in every entry of a list. */
#define CHECK(member) .offset = offsetof(check_result, member)
#define SAVED(member) .offset = offsetof(checkpoint_facts, member)
#define LIST(list) .listed = true, .offset = offsetof(case_result, list), .stride = sizeof(*((case_result *)0)->list)
#define SPAN(member) LIST(seen.spans), .in_list = offsetof(span, member), .per = PER_SPAN
#define RANK_TABLE(which) PER_STEP, .across = PER_RANK, LIST(seen.ranks.table[which])
#define PACE(member) LIST(figures.pace), .in_list = offsetof(rank_pace, member), .per = PER_RANK
#define SUM(member) LIST(seen.ranks.work), .in_list = offsetof(rank_work, sums.member), .per = PER_RANK
#define DEVICE(when, member)                                                                                           \
    .listed = true, .offset = offsetof(case_result, seen.devices), .stride = 2 * sizeof(machine_device),               \
    .in_list = (when) * sizeof(machine_device) + offsetof(machine_device, member), .per = PER_RANK
#define SAMPLE(member) LIST(seen.samples.list), .in_list = offsetof(ranked_sample, member), .per = PER_SAMPLE

static const char *operation_word(const void *at) { return op_kind_name(*(const op_kind *)at); }
static const char *phase_word(const void *at) { return phase_name(*(const phase *)at); }
static const char *axis_word(const void *at) { return gathered_axis_name(*(const int *)at); }
static const char *fp8_word(const void *at) { return fp8_kind_name(*(const fp8_kind *)at); }
static const char *memory_word(const void *at) { return arena_kind_name(*(const arena_kind *)at); }

/* Steps, warm-up first. */
static const field of_steps[] = {
    { "step", "1", "from 0", FIELD_ROW, .per = PER_STEP },
    { "step_seconds", "s", "of the slowest rank", FIELD_REAL, PER_STEP, LIST(figures.step_seconds) },
    { "begin_seconds", "s", "since the case began; rank 0's clock", FIELD_REAL, PER_STEP, LIST(seen.begin),
      .record_only = true },
    { "losses", "1", "mean of the global batch", FIELD_REAL, PER_STEP, LIST(seen.loss) },
    { "gradient_norms", "1", "before clipping", FIELD_REAL, PER_STEP, LIST(seen.gradient_norm) },
    { "learning_rates", "1", "as used", FIELD_REAL, PER_STEP, LIST(seen.learning_rate) },
    { "pause_seconds", "s", "that a checkpoint took before it; a step after a pause is not in the mean", FIELD_REAL,
      PER_STEP, LIST(seen.pause) },
    { "balance_losses", "1", "of experts, summed over layers, mean of the global batch; not in losses", FIELD_REAL,
      PER_STEP, LIST(seen.routed[ROUTED_BALANCE]) },
    { "choices_dropped", "1", "of experts, beyond the capacity, in all layers", FIELD_REAL, PER_STEP,
      LIST(seen.routed[ROUTED_DROPS]) },
    { "expert_loads_least", "1", "choices of the expert of a layer that has least, before dropping", FIELD_REAL,
      PER_STEP, LIST(seen.routed[ROUTED_LEAST]) },
    { "expert_loads_most", "1", "of the one that has most", FIELD_REAL, PER_STEP, LIST(seen.routed[ROUTED_MOST]) },
    { "expert_loads_variation", "1", "standard deviation over all layers' experts / mean", FIELD_REAL, PER_STEP,
      LIST(seen.routed[ROUTED_VARIATION]) },
};

static const field of_ranks[] = {
    { "step", "1", "from 0", FIELD_ROW, .per = PER_STEP },
    { "rank", "1", "from 0", FIELD_ROW, .per = PER_RANK },
    { "rank_seconds", "s", "each rank's step", FIELD_REAL, PER_STEP, .across = PER_RANK, LIST(seen.ranks.step) },
    { "computing_seconds", "s", "of operations that waited for nobody", FIELD_REAL, RANK_TABLE(RANK_COMPUTING) },
    { "run_delay_seconds", "s", "its processor ran others while it computed; host", FIELD_REAL,
      RANK_TABLE(RANK_RUN_DELAY) },
    { "late_seconds", "s", "another of its groups was longer in collectives", FIELD_REAL, RANK_TABLE(RANK_LATE) },
    { "exposed_tensor", "s", "nothing could run but transfers on the axis", FIELD_REAL,
      RANK_TABLE(RANK_EXPOSED_TENSOR) },
    { "exposed_context", "s", "the same", FIELD_REAL, RANK_TABLE(RANK_EXPOSED_CONTEXT) },
    { "exposed_expert", "s", "the same", FIELD_REAL, RANK_TABLE(RANK_EXPOSED_EXPERT) },
    { "exposed_shard", "s", "the same", FIELD_REAL, RANK_TABLE(RANK_EXPOSED_SHARD) },
    { "exposed_pipeline", "s", "the same", FIELD_REAL, RANK_TABLE(RANK_EXPOSED_PIPELINE) },
    { "exposed_gradient", "s", "the same, data x context", FIELD_REAL, RANK_TABLE(RANK_EXPOSED_GRADIENT) },
    { "exposed_all", "s", "the same, sums of a few numbers over all ranks or all that hold a model", FIELD_REAL,
      RANK_TABLE(RANK_EXPOSED_ALL) },
    { "computing_flops", "flop", "that the rank was given in the timed steps", FIELD_REAL, PACE(flops) },
    { "computing_bytes", "bytes", "of operands, of operations that it was given", FIELD_REAL, PACE(bytes) },
    { "peers", "1", "other ranks that were given the same", FIELD_INTEGER, PACE(peers) },
    { "excess", "1", "of its own computing over its peers', of the timed steps", FIELD_REAL, PACE(excess) },
    { "excess_error", "1", "standard error of that", FIELD_REAL, PACE(error) },
};

/* Totals of the timed steps, per rank. */
static const field of_rank_sums[] = {
    { "rank", "1", "from 0", FIELD_ROW, .per = PER_RANK },
    { "idle_seconds", "s", "its compute queue ran nothing", FIELD_REAL, SUM(idle_seconds) },
    { "dispatch_seconds", "s", "it submitted operations", FIELD_REAL, SUM(dispatch_seconds) },
    { "phase_seconds", "s", "of operations that compute, by phase", FIELD_REAL, SUM(phase_seconds), .across = PER_PHASE,
      .column = sizeof(double) },
    { "axis", NULL, "of the mesh; columns of the tables below", FIELD_LABEL, PER_GATHERED_AXIS, .word = axis_word },
    { "transfer_messages", "1", "submitted", FIELD_COUNT, SUM(messages), .across = PER_GATHERED_AXIS,
      .column = sizeof(int64_t) },
    { "transfer_bytes", "bytes", "of operands", FIELD_REAL, SUM(bytes), .across = PER_GATHERED_AXIS,
      .column = sizeof(double) },
    { "transfer_seconds", "s", "of execution, waits included", FIELD_REAL, SUM(seconds), .across = PER_GATHERED_AXIS,
      .column = sizeof(double) },
};

/* At begin and end of the timed steps. */
static const field of_devices[] = {
    { "clock_at_begin", "Hz", "each rank's", FIELD_KNOWN, DEVICE(0, clock_hertz) },
    { "clock_at_end", "Hz", "each rank's", FIELD_KNOWN, DEVICE(1, clock_hertz) },
    { "power_at_begin", "W", "each rank's", FIELD_KNOWN, DEVICE(0, power_watts) },
    { "power_at_end", "W", "each rank's", FIELD_KNOWN, DEVICE(1, power_watts) },
    { "throttled_at_begin", NULL, "why", FIELD_TEXT, DEVICE(0, throttle_reasons) },
    { "throttled_at_end", NULL, "why", FIELD_TEXT, DEVICE(1, throttle_reasons) },
};

/* Samples of the timed steps. Counters start at 0 in a rank's first sample. Values of the node are taken by its first
 * rank only. */
static const field of_samples[] = {
    { "rank", "1", "whose", FIELD_INTEGER, SAMPLE(rank) },
    { "seconds", "s", "since the first timed step began; rank 0's clock", FIELD_REAL, SAMPLE(now.seconds) },
    { "clock", "Hz", "of the device", FIELD_REAL, SAMPLE(now.clock_hertz) },
    { "clock_least", "Hz", "of it and of the samples after it that were dropped", FIELD_REAL, SAMPLE(now.clock_least) },
    { "clock_most", "Hz", "the same", FIELD_REAL, SAMPLE(now.clock_most) },
    { "temperature", "degC", "of the device", FIELD_REAL, SAMPLE(now.temperature) },
    { "temperature_most", "degC", "of it and of those that were dropped", FIELD_REAL, SAMPLE(now.temperature_most) },
    { "power", "W", "of the device", FIELD_REAL, SAMPLE(now.power_watts) },
    { "power_least", "W", "of it and of those that were dropped", FIELD_REAL, SAMPLE(now.power_least) },
    { "power_most", "W", "the same", FIELD_REAL, SAMPLE(now.power_most) },
    { "device_energy", "J", "of the device", FIELD_REAL, SAMPLE(now.device_joules) },
    { "clock_events", "1", "NVML's bits of why the clock is what it is; -1: not told", FIELD_INTEGER,
      SAMPLE(now.events) },
    { "core_clock", "Hz", "mean of up to 16 cores of the node", FIELD_REAL, SAMPLE(now.core_hertz) },
    { "load", "1", "processes and threads of the node that run or could run", FIELD_REAL, SAMPLE(now.load) },
    { "busy_seconds", "s", "of the cores that the node's ranks may use", FIELD_REAL, SAMPLE(now.busy_seconds) },
    { "package_energy", "J", "of the node's processors", FIELD_REAL, SAMPLE(now.package_joules) },
    { "own_seconds", "s", "of cores, that the rank used", FIELD_REAL, SAMPLE(now.own_seconds) },
};

/* Rank 0, timed steps. */
static const field of_phases[] = {
    { "name", NULL, "of the phase", FIELD_LABEL, PER_PHASE, .word = phase_word },
    { "seconds", "s", "of operations that compute", FIELD_REAL, PER_PHASE, EACH(seen.tally.phase_seconds, ) },
    { "expected_seconds", "s", "by the deck's sheet", FIELD_KNOWN, PER_PHASE, EACH(seen.expected.phase, ) },
};
static const field of_operations[] = {
    { "name", NULL, "of the kind of operation", FIELD_LABEL, PER_OPERATION, .word = operation_word },
    { "count", "1", "submitted", FIELD_COUNT, PER_OPERATION, EACH(seen.tally.kind, .count) },
    { "flops", "flop", "that the mathematics needs", FIELD_REAL, PER_OPERATION, EACH(seen.tally.kind, .flops) },
    { "bytes", "bytes", "of operands", FIELD_REAL, PER_OPERATION, EACH(seen.tally.kind, .bytes) },
    { "seconds", "s", "of execution", FIELD_REAL, PER_OPERATION, EACH(seen.tally.kind, .seconds) },
};
static const field of_transfers[] = {
    { "axis", NULL, "of the mesh", FIELD_NAME, PER_AXIS, EACH(seen.tally.axis, .axis) },
    { "messages", "1", "submitted", FIELD_COUNT, PER_AXIS, EACH(seen.tally.axis, .messages) },
    { "bytes", "bytes", "of operands", FIELD_REAL, PER_AXIS, EACH(seen.tally.axis, .bytes) },
    { "exposed_seconds", "s", "in which the compute queue waited for it", FIELD_REAL, PER_AXIS,
      EACH(seen.tally.axis, .exposed_seconds) },
    { "expected_seconds", "s", "by the deck's sheet", FIELD_KNOWN, PER_AXIS, EACH(seen.expected.exposed, ) },
};

/* Rank 0, timed steps. The bandwidths show a slow transfer. */
static const field of_transfer_kinds[] = {
    { "name", NULL, "axis and kind", FIELD_TEXT, PER_TRANSFER, EACH(seen.tally.transfer, .name) },
    { "messages", "1", "submitted", FIELD_COUNT, PER_TRANSFER, EACH(seen.tally.transfer, .messages) },
    { "bytes", "bytes", "one way over the rank's link", FIELD_REAL, PER_TRANSFER, EACH(seen.tally.transfer, .bytes) },
    { "seconds", "s", "of execution, waits included", FIELD_REAL, PER_TRANSFER, EACH(seen.tally.transfer, .seconds) },
    { "bytes_per_second", "bytes/s", "bytes of these seconds", FIELD_REAL, PER_TRANSFER,
      EACH(seen.tally.transfer, .bytes_per_second) },
};

/* Rank 0's last step, by time of completion; seconds since its first operation began. */
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
    { "bytes", "bytes", "of rank 0's arena", FIELD_BYTES, PER_MEMORY_KIND, EACH(seen.bytes_by_kind, ) },
};

/* All ranks, timed steps. */
static const field of_fp8[] = {
    { "name", NULL, "of the kind of tensor", FIELD_LABEL, PER_FP8_KIND, .word = fp8_word },
    { "underflowed", "1", "part of the values that became 0", FIELD_REAL, PER_FP8_KIND, EACH(seen.fp8, .underflowed) },
    { "saturated", "1", "part that became the format's largest number", FIELD_REAL, PER_FP8_KIND,
      EACH(seen.fp8, .saturated) },
    { "scale_least", "1", "smallest scale of a tensor", FIELD_REAL, PER_FP8_KIND, EACH(seen.fp8, .scale_least) },
    { "scale_most", "1", "largest", FIELD_REAL, PER_FP8_KIND, EACH(seen.fp8, .scale_most) },
};

/* Tensor number: (layer x 4 + product) x 3 + kind, with products in the order of a layer. */
static const field of_fp8_tensors[] = {
    { "scales", "1", "of a step and tensor: what its values were multiplied by; of current scaling the least",
      FIELD_REAL, PER_STEP, .across = PER_FP8_TENSOR, LIST(seen.fp8_scale) },
};

static const field of_check[] = {
    { "done", NULL, "the check model was trained", FIELD_FLAG, CHECK(done) },
    { "passed", NULL, "the residual is below 16, and there are no differences", FIELD_FLAG, CHECK(passed) },
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
    { "transfers", "1", "that were proven", FIELD_COUNT, CHECK(transfers) },
    { "differences", "1", "sums over ranks, kinds of transfers on an axis, and runs that differ", FIELD_COUNT,
      CHECK(differing) },
    { "difference", NULL, "the first of them", FIELD_TEXT, CHECK(difference) },
    { "digest", NULL, "of the losses, norms and final weights of all ranks", FIELD_TEXT, CHECK(digest) },
};

/* After several saves, the last one's. Seconds are the slowest rank's. */
static const field of_checkpoint[] = {
    { "loaded_step", "1", "steps before this case, of the checkpoint that it went on from; 0: of none", FIELD_COUNT,
      SAVED(loaded_step) },
    { "rate_warmup", "1", "steps until the largest learning rate, by that checkpoint", FIELD_COUNT,
      SAVED(rate_warmup) },
    { "rate_steps", "1", "steps of its rule of the learning rate", FIELD_COUNT, SAVED(rate_steps) },
    { "loaded_bytes", "bytes", "read by all ranks", FIELD_KNOWN, SAVED(loaded_bytes) },
    { "load_seconds", "s", "until all sums were compared", FIELD_KNOWN, SAVED(load_seconds) },
    { "loaded_sha256", NULL, "of its index", FIELD_TEXT, SAVED(loaded_sha256) },
    { "saves", "1", "checkpoints that were saved", FIELD_COUNT, SAVED(saves) },
    { "saved_step", "1", "steps that the last one has", FIELD_COUNT, SAVED(saved_step) },
    { "bytes", "bytes", "of the files of all ranks", FIELD_KNOWN, SAVED(bytes) },
    { "seconds", "s", "until it had its name; not to read it back", FIELD_KNOWN, SAVED(seconds) },
    { "write_seconds", "s", "until a rank's file was on the disk", FIELD_KNOWN, SAVED(write_seconds) },
    { "sync_seconds", "s", "of these, fsync", FIELD_KNOWN, SAVED(sync_seconds) },
    { "rank_bytes_per_second", "bytes/s", "of the slowest rank's write", FIELD_KNOWN, SAVED(rank_rate) },
    { "node_bytes_per_second", "bytes/s", "of a node, on average, by the slowest rank's write", FIELD_KNOWN,
      SAVED(node_rate) },
    { "read_seconds", "s", "to read it back; 0: it was not", FIELD_KNOWN, SAVED(read_seconds) },
    { "free_bytes", "bytes", "free before it, where rank 0 writes", FIELD_KNOWN, SAVED(free_bytes) },
    { "file_system", NULL, "type, where rank 0 writes", FIELD_TEXT, SAVED(file_system) },
    { "sha256", NULL, "of its index", FIELD_TEXT, SAVED(sha256) },
    { "failed", NULL, "why the first save that failed did; empty: none did", FIELD_TEXT, SAVED(failed) },
};

static const field_group groups[] = {
    { "steps", LINE_FLAT, "step_seconds", { "step" }, FIELDS(of_steps) },
    { "ranks", LINE_ABSENT, "rank_seconds", { "step", "rank" }, FIELDS(of_ranks) },
    { "rank_sums", LINE_ABSENT, FIELDS(of_rank_sums) },
    { "devices", LINE_ABSENT, FIELDS(of_devices) },
    { "samples", LINE_ABSENT, FIELDS(of_samples) },
    { "phases", LINE_ROWS, "seconds", { "." }, FIELDS(of_phases) },
    { "operations", LINE_ROWS, "seconds", { "." }, FIELDS(of_operations) },
    { "transfers", LINE_ROWS, FIELDS(of_transfers) },
    { "transfer_kinds", LINE_ROWS, FIELDS(of_transfer_kinds) },
    { "spans", LINE_ABSENT, "end", { "begin" }, FIELDS(of_spans) },
    { "fp8", LINE_ROWS, FIELDS(of_fp8) },
    { "fp8_tensors", LINE_ABSENT, FIELDS(of_fp8_tensors) },
    { "memory", LINE_ROWS, "bytes", { "." }, FIELDS(of_memory) },
    { "checkpoints", LINE_OBJECT, .offset = offsetof(case_result, seen.checkpoint), FIELDS(of_checkpoint) },
    { "check_model", LINE_OBJECT, .offset = offsetof(case_result, seen.check), FIELDS(of_check) },
};

const field_list part_fields = { groups, sizeof groups / sizeof *groups };
