/* The words of a deck and of a report: one list per enumeration of bench_case.h. */
#include "plan/keys/names.h"
#include "base/op_kinds.h"
#include "plan/bench_case.h"

static word_list axis_names = { "tensor", "context", "shard", "data", "pipeline" };
word_list size_names = { "auto", "full", "small", "check", 0 };
word_list precision_names = { "fp32", "bf16", "fp8", 0 };
word_list backend_names = { "auto", "host", "cuda", 0 };
word_list tokens_names = { "uniform", "ramp", "zeros", 0 };
word_list recompute_names = { "none", "attention", "mlp", "layer", "attention_mlp", 0 };
word_list sharding_names = { "none", "optimizer", 0 };
#define NAME(constant, write, name) [constant] = name,
word_list schedule_names = { SCHEDULES(NAME) 0 };
word_list order_names = { "submitted", "hostile", 0 };
word_list check_names = { "off", "model", "kernels", 0 };
word_list overlap_names = { "off", "on", 0 };
word_list answer_names = { "no", "yes", 0 };
word_list attention_names = { "auto", "own", 0 };
word_list fault_names = { "none", "drop", "stale", "repeat", "scale", "flip", "unwait", 0 };
#define OPERATION(constant, name) #name,
word_list operation_names = { OPS_OF_STEPS(OPERATION) 0 };

const char *axis_name(mesh_axis axis) { return axis_names[axis]; }
const char *size_name(case_size size) { return size_names[size]; }
const char *precision_name(case_precision precision) { return precision_names[precision]; }
const char *backend_name(case_backend backend) { return backend_names[backend]; }
const char *tokens_name(tokens_kind tokens) { return tokens_names[tokens]; }
const char *recompute_name(recompute_mask recompute) { return recompute_names[recompute]; }
const char *sharding_name(state_sharding sharding) { return sharding_names[sharding]; }
const char *schedule_name(schedule_kind schedule) { return schedule_names[schedule]; }
const char *attention_name(attention_choice attention) { return attention_names[attention]; }
const char *fault_name(fault_kind kind) { return fault_names[kind]; }
