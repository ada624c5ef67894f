/* Machine sheets: the assumed speeds of a machine, one term in a line, in inputs/machines/NAME.sheet:
 *
 *     device H100                       # a row of plan/catalogue/devices.h
 *     nvlink GB/s 370 300 380 published NCCL's developers, nccl-tests issue 212
 *     op matmul f32[512x256],f32[512x512],f32[512x256]t 1.3e8 us 950.2
 *     transfer all_gather 16 8 65536 us 31.5
 *
 * A term has its unit; the expected, the least and the largest value; and an origin (measured, published or assumed),
 * followed by the source or the reason. `--calibrate` and `--slice` write the lines `op` and `transfer`; the terms
 * `operations` and `transfers` give the origin of their times. The term `nearest` gives the origin for operations that
 * take the rate of the nearest listed shapes. `op` has the kind, the operands (t: the last dimension is not the
 * fastest;
 * +: it is added to) and the work: flops, or bytes if it has no flops. `transfer` has the kind, the ranks of the group,
 * how many of them share an NVLink domain (on a host: a node), and the bytes of the first operand. `device host` is a
 * machine whose ranks are processes; of the terms it needs gap, operations, nearest and transfers. `#` begins a
 * comment. */
#pragma once
#include "base/text.h"
#include "plan/bench_case.h"
#include "plan/catalogue/devices.h"
#include <stddef.h>

typedef enum {
    TERM_MULTIPROCESSORS,
    TERM_PRODUCT_FP32,
    TERM_PRODUCT_BF16,
    TERM_PRODUCT_FP8,
    TERM_PRODUCT_SHAPE,
    TERM_FP8_SPLIT,
    TERM_ATTENTION_FORWARD,
    TERM_ATTENTION_BACKWARD,
    TERM_ATTENTION_SHORT,
    TERM_MEMORY,
    TERM_GAP,
    TERM_NVLINK,
    TERM_NETWORK,
    TERM_THREAD_BLOCK,
    TERM_COPY_LATENCY,
    TERM_KERNEL_LATENCY,
    TERM_OPERATIONS,
    TERM_NEAREST,
    TERM_TRANSFERS,
    TERMS
} sheet_term;

typedef enum { MEASURED, PUBLISHED, ASSUMED, ORIGINS } sheet_origin;
typedef enum { EXPECTED, LEAST, MOST, VALUES } sheet_value;

/* A term, in SI units: seconds, flop/s, bytes/s. */
typedef struct {
    double value[VALUES];
    sheet_origin origin;
    int line; /* 0: not in the sheet */
} term_entry;

/* A measured operation or transfer. key: the words of its line before the work. work: flops or bytes. */
enum { OPERATION_KEY = 400 };
typedef struct {
    char key[OPERATION_KEY];
    double work, seconds;
} listed_time;
typedef struct {
    listed_time *list; /* owned */
    int count, capacity;
} listed_times;

typedef struct machine_sheet {
    char name[64];
    bool host; /* ranks are processes; device is NULL */
    const device_row *device;
    listed_times operations, transfers;
    term_entry term[TERMS];
} machine_sheet;

const char *term_name(sheet_term t);
const char *term_unit(sheet_term t);
double term_si(sheet_term t);          /* one unit in SI */
sheet_term term_named(text_view name); /* TERMS if there is none */
bool term_is_rate(sheet_term t);       /* a larger value means less time */
bool term_is_factor(sheet_term t);     /* its seconds are also those of another term */
const char *origin_name(sheet_origin o);

/* Reads a sheet. Returns the number of mistakes and reports each to `complain` with its line, or line 0 if a term is
 * missing. */
int sheet_read(machine_sheet *s, const char *name, const char *text,
               void (*complain)(void *me, int line, const char *sentence), void *me);
void sheet_free(machine_sheet *s);
void listed_add(listed_times *to, listed_time x);
/* Compares key and work. */
bool listed_same(const listed_time *a, const listed_time *b);
