/* Machine sheets: what a machine is taken to do, one term a line, in inputs/machines/NAME.sheet:
 *
 *     device H100                       # a row of plan/catalogue/devices.h
 *     nvlink GB/s 370 300 380 published NCCL's developers, nccl-tests issue 212
 *     op matmul f32[512x256],f32[512x512],f32[512x256]t 1.3e8 us 950.2
 *     transfer all_gather 16 8 65536 us 31.5
 *
 * A term has its unit, what is expected, the least and the most that it may be, and an origin: measured, published or
 * assumed, then where or why. Operations and transfers are listed by `--calibrate` and `--slice`; their origins are
 * those of the terms `operations` and `transfers`, and that of operations which take the rate of the nearest listed
 * shapes is the term `nearest`. An operation has its kind, its operands (t: its last dimension is not the fastest; +:
 * it is added to) and its work: flops, or bytes where it has none. A transfer has its kind, the ranks of its group, how
 * many of them share an NVLink domain (on a host: a node), and the bytes of its first operand. `device host` is a
 * machine whose ranks are processes; it needs the terms gap, operations, nearest and transfers, and no others. `#`
 * begins a comment. */
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

/* In SI units: seconds, flop/s, bytes/s. */
typedef struct {
    double value[VALUES];
    sheet_origin origin;
    int line; /* 0: not there */
} term_entry;

/* A measured operation or transfer. key: the words of its line up to its work, which is in flops or bytes. */
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
    bool host; /* then there is no device */
    const device_row *device;
    listed_times operations, transfers;
    term_entry term[TERMS];
} machine_sheet;

/* Name and unit of a term, and whether more of it takes less time. */
const char *term_name(sheet_term t);
const char *term_unit(sheet_term t);
double term_si(sheet_term t);          /* of one unit */
sheet_term term_named(text_view name); /* TERMS: none */
bool term_is_rate(sheet_term t);
bool term_is_factor(sheet_term t); /* it scales seconds that another term gives, too */
const char *origin_name(sheet_origin o);

/* Reads a sheet. Returns how many mistakes it has, each told by `complain` with its line; 0: the sheet is whole. */
int sheet_read(machine_sheet *s, const char *name, const char *text,
               void (*complain)(void *me, int line, const char *sentence), void *me);
void sheet_free(machine_sheet *s);
void listed_add(listed_times *to, listed_time x);
/* Compares key and work. */
bool listed_same(const listed_time *a, const listed_time *b);
