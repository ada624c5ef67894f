/* Fields with several values per case: steps, ranks, devices, samples, operations, transfers, checks. */
#include "bench/facts/fields.h"
#include "model/fp8.h"

/* Place of a value: in a check, in a checkpoint, or in every entry of a list. */
#define CHECK(member) .offset = offsetof(check_result, member)
#define SAVED(member) .offset = offsetof(checkpoint_facts, member)
#define LIST(list) .listed = true, .offset = offsetof(case_result, list), .stride = sizeof(*((case_result *)0)->list)
#define TALLY(array, member) EACH(seen.tally.array, member)
#define SPAN(member) LIST(seen.spans), .in_list = offsetof(span, member), .per = PER_SPAN
#define RANK_TABLE(which) PER_STEP, .across = PER_RANK, LIST(seen.ranks.table[which])
#define PACE(member) LIST(figures.pace), .in_list = offsetof(rank_pace, member), .per = PER_RANK
#define SUM(member) LIST(seen.ranks.work), .in_list = offsetof(rank_work, sums.member), .per = PER_RANK
#define DEVICE(when, member)                                                                                           \
    .listed = true, .offset = offsetof(case_result, seen.devices), .stride = 2 * sizeof(machine_device),               \
    .in_list = (when) * sizeof(machine_device) + offsetof(machine_device, member), .per = PER_RANK
#define SAMPLE(member) LIST(seen.samples.list), .in_list = offsetof(ranked_sample, member), .per = PER_SAMPLE
#define NOW(member) SAMPLE(now.member)

static const char *operation_word(const void *at) { return op_kind_name(*(const op_kind *)at); }
static const char *phase_word(const void *at) { return phase_name(*(const phase *)at); }
static const char *axis_word(const void *at) { return gathered_axis_name(*(const int *)at); }
static const char *fp8_word(const void *at) { return fp8_kind_name(*(const fp8_kind *)at); }
static const char *memory_word(const void *at) { return arena_kind_name(*(const arena_kind *)at); }

static const field of_steps[] = {
    { "step", "1", "number of the step, from 0, warm-up first", FIELD_ROW, .per = PER_STEP },
    { "step_seconds", "s", "step time of the slowest rank, in the slowest copy", FIELD_REAL, PER_STEP,
      LIST(figures.step_seconds) },
    { "begin_seconds", "s", "begin of the step since the begin of the case; rank 0's clock", FIELD_REAL, PER_STEP,
      LIST(seen.begin), .record_only = true },
    { "losses", "1", "mean loss of the global batch", FIELD_REAL, PER_STEP, LIST(seen.loss) },
    { "gradient_norms", "1", "gradient norm before clipping", FIELD_REAL, PER_STEP, LIST(seen.gradient_norm) },
    { "learning_rates", "1", "learning rate of the step", FIELD_REAL, PER_STEP, LIST(seen.learning_rate) },
    { "pause_seconds", "s", "duration of a checkpoint before the step; after a pause, the step is not in the mean",
      FIELD_REAL, PER_STEP, LIST(seen.pause) },
    { "balance_losses", "1", "balance loss of experts over all layers, mean of the global batch; not part of losses",
      FIELD_REAL, PER_STEP, LIST(seen.routed[ROUTED_BALANCE]) },
    { "choices_dropped", "1", "choices of experts dropped because of the capacity, all layers", FIELD_REAL, PER_STEP,
      LIST(seen.routed[ROUTED_DROPS]) },
    { "expert_loads_least", "1", "smallest number of choices of one expert of a layer, before dropping", FIELD_REAL,
      PER_STEP, LIST(seen.routed[ROUTED_LEAST]) },
    { "expert_loads_most", "1", "largest of these numbers", FIELD_REAL, PER_STEP, LIST(seen.routed[ROUTED_MOST]) },
    { "expert_loads_variation", "1", "standard deviation / mean of the loads of all experts of all layers", FIELD_REAL,
      PER_STEP, LIST(seen.routed[ROUTED_VARIATION]) },
};

/* Copies of the case; no rows if there is one. */
static const field of_copies[] = {
    { "copy", "1", "number of the copy: rank / ranks of a copy", FIELD_ROW, .per = PER_COPY },
    { "mean_seconds", "s", "mean of the copy's timed steps", FIELD_REAL, PER_COPY, LIST(figures.copy_seconds) },
    { "weights_digest", NULL, "digest of the copy's weights after the last step", FIELD_TEXT, PER_COPY,
      LIST(seen.copies.weights) },
    { "losses", "1", "mean loss of the copy's global batch", FIELD_REAL, PER_STEP, .across = PER_COPY,
      LIST(seen.copies.loss) },
    { "gradient_norms", "1", "gradient norm before clipping", FIELD_REAL, PER_STEP, .across = PER_COPY,
      LIST(seen.copies.gradient_norm) },
};

static const field of_ranks[] = {
    { "step", "1", "number of the step, from 0, warm-up first", FIELD_ROW, .per = PER_STEP },
    { "rank", "1", "number of the rank, from 0", FIELD_ROW, .per = PER_RANK },
    { "rank_seconds", "s", "step time of each rank", FIELD_REAL, PER_STEP, .across = PER_RANK, LIST(seen.ranks.step) },
    { "computing_seconds", "s", "time of operations that wait for no rank", FIELD_REAL, RANK_TABLE(RANK_COMPUTING) },
    { "run_delay_seconds", "s", "part of computing in which the processor ran other processes; host only", FIELD_REAL,
      RANK_TABLE(RANK_RUN_DELAY) },
    { "late_seconds", "s", "longest collective time in the group minus own", FIELD_REAL, RANK_TABLE(RANK_LATE) },
    { "exposed_tensor", "s", "time in which only transfers of the tensor axis ran", FIELD_REAL,
      RANK_TABLE(RANK_EXPOSED_TENSOR) },
    { "exposed_context", "s", "the same for the context axis", FIELD_REAL, RANK_TABLE(RANK_EXPOSED_CONTEXT) },
    { "exposed_expert", "s", "the same for the expert axis", FIELD_REAL, RANK_TABLE(RANK_EXPOSED_EXPERT) },
    { "exposed_shard", "s", "the same for the shard axis", FIELD_REAL, RANK_TABLE(RANK_EXPOSED_SHARD) },
    { "exposed_pipeline", "s", "the same for the pipeline axis", FIELD_REAL, RANK_TABLE(RANK_EXPOSED_PIPELINE) },
    { "exposed_gradient", "s", "the same for gradients, data x context", FIELD_REAL,
      RANK_TABLE(RANK_EXPOSED_GRADIENT) },
    { "exposed_all", "s", "the same for sums over all ranks, or over all ranks of a model", FIELD_REAL,
      RANK_TABLE(RANK_EXPOSED_ALL) },
    { "computing_flops", "flop", "flops of the rank's computing operations, all steps", FIELD_REAL, PACE(flops) },
    { "computing_bytes", "bytes", "bytes of the operands of these operations", FIELD_REAL, PACE(bytes) },
    { "peers", "1", "number of other ranks with the same work", FIELD_INTEGER, PACE(peers) },
    { "excess", "1", "own computing time over the median of its peers, minus 1", FIELD_REAL, PACE(excess) },
    { "excess_error", "1", "standard error of excess", FIELD_REAL, PACE(error) },
};

/* Totals of the timed steps, per rank. */
static const field of_rank_sums[] = {
    { "rank", "1", "number of the rank, from 0", FIELD_ROW, .per = PER_RANK },
    { "idle_seconds", "s", "idle time of its compute queue, timed steps", FIELD_REAL, SUM(idle_seconds) },
    { "dispatch_seconds", "s", "time to submit operations", FIELD_REAL, SUM(dispatch_seconds) },
    { "phase_seconds", "s", "time of computing operations, by phase", FIELD_REAL, SUM(phase_seconds),
      .across = PER_PHASE, .column = sizeof(double) },
    { "axis", NULL, "axes: columns of the tables below", FIELD_LABEL, PER_GATHERED_AXIS, .word = axis_word },
    { "transfer_messages", "1", "number of transfers submitted", FIELD_COUNT, SUM(messages),
      .across = PER_GATHERED_AXIS, .column = sizeof(int64_t) },
    { "transfer_bytes", "bytes", "bytes of the operands of transfers", FIELD_REAL, SUM(bytes),
      .across = PER_GATHERED_AXIS, .column = sizeof(double) },
    { "transfer_seconds", "s", "time of transfers, including the wait for other ranks", FIELD_REAL, SUM(seconds),
      .across = PER_GATHERED_AXIS, .column = sizeof(double) },
};

static const field of_devices[] = {
    { "clock_at_begin", "Hz", "each rank's clock as the timed steps begin", FIELD_KNOWN, DEVICE(0, clock_hertz) },
    { "clock_at_end", "Hz", "each rank's clock as the timed steps end", FIELD_KNOWN, DEVICE(1, clock_hertz) },
    { "power_at_begin", "W", "each rank's power as the timed steps begin", FIELD_KNOWN, DEVICE(0, power_watts) },
    { "power_at_end", "W", "each rank's power as the timed steps end", FIELD_KNOWN, DEVICE(1, power_watts) },
    { "throttled_at_begin", NULL, "reasons for the clock at that time", FIELD_TEXT, DEVICE(0, throttle_reasons) },
    { "throttled_at_end", NULL, "reasons for the clock at that time", FIELD_TEXT, DEVICE(1, throttle_reasons) },
};

/* Counters start at 0 in a rank's first sample. Only the first rank of a node samples values of the node. */
static const field of_samples[] = {
    { "rank", "1", "rank that took the sample", FIELD_INTEGER, SAMPLE(rank) },
    { "seconds", "s", "time since the first timed step began; rank 0's clock", FIELD_REAL, NOW(seconds) },
    { "clock", "Hz", "clock of the device", FIELD_REAL, NOW(clock_hertz) },
    { "clock_least", "Hz", "lowest clock until the next sample", FIELD_REAL, NOW(clock_least) },
    { "clock_most", "Hz", "highest clock until the next sample", FIELD_REAL, NOW(clock_most) },
    { "temperature", "degC", "temperature of the device", FIELD_REAL, NOW(temperature) },
    { "temperature_most", "degC", "highest temperature until the next sample", FIELD_REAL, NOW(temperature_most) },
    { "power", "W", "power of the device", FIELD_REAL, NOW(power_watts) },
    { "power_least", "W", "lowest power until the next sample", FIELD_REAL, NOW(power_least) },
    { "power_most", "W", "highest power until the next sample", FIELD_REAL, NOW(power_most) },
    { "device_energy", "J", "energy of the device since the first sample", FIELD_REAL, NOW(device_joules) },
    { "clock_events", "1", "NVML's clock event reasons, as bits; -1 if unknown", FIELD_INTEGER, NOW(events) },
    { "core_clock", "Hz", "mean clock of up to 16 cores of the node", FIELD_REAL, NOW(core_hertz) },
    { "load", "1", "processes and threads of the node that run or could run", FIELD_REAL, NOW(load) },
    { "busy_seconds", "s", "busy time of usable cores since the first sample", FIELD_REAL, NOW(busy_seconds) },
    { "package_energy", "J", "energy of the node's processors since then", FIELD_REAL, NOW(package_joules) },
    { "own_seconds", "s", "processor time of the rank since then", FIELD_REAL, NOW(own_seconds) },
};

/* Rank 0, timed steps. */
static const field of_phases[] = {
    { "name", NULL, "name of the phase", FIELD_LABEL, PER_PHASE, .word = phase_word },
    { "seconds", "s", "rank 0's computing operations, timed steps", FIELD_REAL, PER_PHASE, TALLY(phase_seconds, ) },
    { "expected_seconds", "s", "prediction by the machine sheet", FIELD_KNOWN, PER_PHASE, EACH(seen.expected.phase, ) },
};
static const field of_operations[] = {
    { "name", NULL, "kind of operation", FIELD_LABEL, PER_OPERATION, .word = operation_word },
    { "count", "1", "operations submitted; rank 0, timed steps", FIELD_COUNT, PER_OPERATION, TALLY(kind, .count) },
    { "flops", "flop", "flops of the mathematics", FIELD_REAL, PER_OPERATION, TALLY(kind, .flops) },
    { "bytes", "bytes", "bytes of the operands", FIELD_REAL, PER_OPERATION, TALLY(kind, .bytes) },
    { "seconds", "s", "time of execution", FIELD_REAL, PER_OPERATION, TALLY(kind, .seconds) },
};
static const field of_transfers[] = {
    { "axis", NULL, "axis of the mesh", FIELD_NAME, PER_AXIS, TALLY(axis, .axis) },
    { "messages", "1", "transfers submitted; rank 0, timed steps", FIELD_COUNT, PER_AXIS, TALLY(axis, .messages) },
    { "bytes", "bytes", "bytes of the operands", FIELD_REAL, PER_AXIS, TALLY(axis, .bytes) },
    { "exposed_seconds", "s", "time in which only transfers of the axis ran", FIELD_REAL, PER_AXIS,
      TALLY(axis, .exposed_seconds) },
    { "expected_seconds", "s", "prediction by the machine sheet", FIELD_KNOWN, PER_AXIS,
      EACH(seen.expected.exposed, ) },
};

/* Rank 0, timed steps. */
static const field of_transfer_kinds[] = {
    { "name", NULL, "axis and kind of transfer", FIELD_TEXT, PER_TRANSFER, TALLY(transfer, .name) },
    { "messages", "1", "submitted; rank 0, timed steps", FIELD_COUNT, PER_TRANSFER, TALLY(transfer, .messages) },
    { "bytes", "bytes", "bytes in one direction of the link", FIELD_REAL, PER_TRANSFER, TALLY(transfer, .bytes) },
    { "seconds", "s", "execution, including the wait for others", FIELD_REAL, PER_TRANSFER, TALLY(transfer, .seconds) },
    { "bytes_per_second", "bytes/s", "bytes / seconds", FIELD_REAL, PER_TRANSFER, TALLY(transfer, .bytes_per_second) },
};

/* Rank 0's last step, by time of completion; seconds since its first operation began. */
static const field of_spans[] = {
    { "begin", "s", "begin of the operation in rank 0's last step", FIELD_REAL, SPAN(begin) },
    { "end", "s", "end of the operation", FIELD_REAL, SPAN(end) },
    { "queue", "1", "number of the queue", FIELD_INTEGER, SPAN(queue) },
    { "layer", "1", "number of the layer; -1 if none", FIELD_INTEGER, SPAN(origin.layer) },
    { "microbatch", "1", "number of the microbatch; -1 if none", FIELD_COUNT, SPAN(origin.microbatch) },
    { "operation", NULL, "kind of operation", FIELD_WORD, SPAN(kind), .word = operation_word },
    { "name", NULL, "name of the operation", FIELD_NAME, SPAN(origin.name) },
    { "phase", NULL, "phase of the step", FIELD_WORD, SPAN(origin.phase), .word = phase_word },
};

static const field of_memory[] = {
    { "name", NULL, "purpose of the memory", FIELD_LABEL, PER_MEMORY_KIND, .word = memory_word },
    { "bytes", "bytes", "bytes in rank 0's arena", FIELD_BYTES, PER_MEMORY_KIND, EACH(seen.bytes_by_kind, ) },
};

/* All ranks, timed steps. */
static const field of_fp8[] = {
    { "name", NULL, "kind of tensor", FIELD_LABEL, PER_FP8_KIND, .word = fp8_word },
    { "underflowed", "1", "fraction of values rounded to 0", FIELD_REAL, PER_FP8_KIND, EACH(seen.fp8, .underflowed) },
    { "saturated", "1", "fraction of values set to the format's maximum", FIELD_REAL, PER_FP8_KIND,
      EACH(seen.fp8, .saturated) },
    { "scale_least", "1", "smallest scale of a tensor", FIELD_REAL, PER_FP8_KIND, EACH(seen.fp8, .scale_least) },
    { "scale_most", "1", "largest scale of a tensor", FIELD_REAL, PER_FP8_KIND, EACH(seen.fp8, .scale_most) },
};

/* Tensor number: (layer x 4 + product) x 3 + kind, with products in the order of a layer. */
static const field of_fp8_tensors[] = {
    { "scales", "1", "factor of a tensor's values in each step; with current scaling, the smallest factor", FIELD_REAL,
      PER_STEP, .across = PER_FP8_TENSOR, LIST(seen.fp8_scale) },
};

static const field of_check[] = {
    { "done", NULL, "the check ran", FIELD_FLAG, CHECK(done) },
    { "passed", NULL, "the residual is below 16, and there are no differences", FIELD_FLAG, CHECK(passed) },
    { "residual", "1", "largest of the values below: worst ratio to its limit, times 16", FIELD_REAL, CHECK(residual) },
    { "loss", "1", "ratio for losses", FIELD_REAL, CHECK(loss) },
    { "gradient_first", "1", "ratio for gradients of the first step", FIELD_REAL, CHECK(gradient_first) },
    { "gradient_fourth", "1", "ratio for gradients of the fourth step", FIELD_REAL, CHECK(gradient_fourth) },
    { "along", "1", "ratio for the first gradients along the reference's; FP8", FIELD_REAL, CHECK(along) },
    { "weights", "1", "ratio for the final weights", FIELD_REAL, CHECK(weights) },
    { "routing", "1", "ratio for the choices of experts", FIELD_REAL, CHECK(routing) },
    { "flips", "1", "choices of experts that differ from the reference", FIELD_COUNT, CHECK(flips) },
    { "margin", "1", "largest difference of two logits in these choices", FIELD_REAL, CHECK(margin) },
    { "scales", "1", "ratio for FP8 scales", FIELD_REAL, CHECK(scales) },
    { "scale_flips", "1", "FP8 scales that differ from the reference", FIELD_COUNT, CHECK(scale_flips) },
    { "seconds", "s", "duration of the check", FIELD_REAL, CHECK(seconds) },
    { "worst", NULL, "parameter, step and rank of the residual", FIELD_TEXT, CHECK(worst) },
    { "faults", "1", "executions that a planted fault struck in the check", FIELD_COUNT, CHECK(faults) },
    { "struck", NULL, "operation that the planted fault struck", FIELD_TEXT, CHECK(struck) },
    { "transfers", "1", "number of transfers checked", FIELD_COUNT, CHECK(transfers) },
    { "differences", "1", "wrong sums over ranks, wrong kinds of transfer on an axis, and runs that differ",
      FIELD_COUNT, CHECK(differing) },
    { "difference", NULL, "the first difference", FIELD_TEXT, CHECK(difference) },
    { "digest", NULL, "digest of losses, norms and final weights of all ranks", FIELD_TEXT, CHECK(digest) },
};

/* Values of a save are the last one's. Seconds are the slowest rank's. */
static const field of_checkpoint[] = {
    { "loaded_step", "1", "steps of the checkpoint from which the case continued; 0 if none", FIELD_COUNT,
      SAVED(loaded_step) },
    { "rate_warmup", "1", "steps until the largest learning rate, in that checkpoint", FIELD_COUNT,
      SAVED(rate_warmup) },
    { "rate_steps", "1", "steps of the learning rate's schedule, in that checkpoint", FIELD_COUNT, SAVED(rate_steps) },
    { "loaded_bytes", "bytes", "bytes read by all ranks", FIELD_KNOWN, SAVED(loaded_bytes) },
    { "load_seconds", "s", "time to load the checkpoint and compare all sums", FIELD_KNOWN, SAVED(load_seconds) },
    { "loaded_sha256", NULL, "SHA-256 of the index of the loaded checkpoint", FIELD_TEXT, SAVED(loaded_sha256) },
    { "saves", "1", "number of checkpoints saved", FIELD_COUNT, SAVED(saves) },
    { "saved_step", "1", "steps of the last saved checkpoint", FIELD_COUNT, SAVED(saved_step) },
    { "bytes", "bytes", "bytes of the files of all ranks", FIELD_KNOWN, SAVED(bytes) },
    { "seconds", "s", "time to save the checkpoint, without reading it back", FIELD_KNOWN, SAVED(seconds) },
    { "write_seconds", "s", "time until a rank's file is on the disk", FIELD_KNOWN, SAVED(write_seconds) },
    { "sync_seconds", "s", "part of write_seconds for fsync", FIELD_KNOWN, SAVED(sync_seconds) },
    { "rank_bytes_per_second", "bytes/s", "write speed of the slowest rank", FIELD_KNOWN, SAVED(rank_rate) },
    { "node_bytes_per_second", "bytes/s", "write speed of a node on average, from the time of the slowest rank",
      FIELD_KNOWN, SAVED(node_rate) },
    { "read_seconds", "s", "time to read it back; unknown if it was not", FIELD_KNOWN, SAVED(read_seconds) },
    { "free_bytes", "bytes", "free space before the save, on rank 0's file system", FIELD_KNOWN, SAVED(free_bytes) },
    { "file_system", NULL, "type of rank 0's file system", FIELD_TEXT, SAVED(file_system) },
    { "sha256", NULL, "SHA-256 of the index of the saved checkpoint", FIELD_TEXT, SAVED(sha256) },
    { "failed", NULL, "why the first failed save failed; empty if none failed", FIELD_TEXT, SAVED(failed) },
};

static const field_group groups[] = {
    { "steps", LINE_FLAT, "step_seconds", { "step" }, FIELDS(of_steps) },
    { "copies", LINE_ABSENT, FIELDS(of_copies) },
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
