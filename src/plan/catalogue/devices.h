/* What data sheets say of GPUs. */
#pragma once
#include "base/text.h"

/* Dense peaks in flop/s: halves of what data sheets print "with sparsity". A row without memory has peaks only. */
typedef struct {
    const char *name;
    double bf16, fp8;
    double memory_bytes;
    int domain; /* GPUs that reach each other through NVLink */
    int node;   /* GPUs of a node */
} device_row;

/* The device of a dry run that names none: every published layout has a cell of it. */
#define PAPER_DEVICE "H100"
/* The row that the name begins with, without its maker: "NVIDIA H100 80GB HBM3", "H100"; NULL: none. A part of a GPU
 * has no row. */
const device_row *device_find(const char *name);
/* Memory of the device; of PAPER_DEVICE if the name is NULL or has no row with memory. */
double device_bytes(const char *name);
/* GPUs of its NVLink domain; a device that is not known has those of PAPER_DEVICE. */
int device_domain(const char *name);
/* The row that a dry run may name; NULL and a sentence with all names if there is none. */
const device_row *device_named(const char *name, char *sentence, size_t length);
/* Is it the GPU of a cell? Cells are of SXM modules and trays; other cards of a chip and parts of it are slower. */
bool device_is(const char *device, const char *gpu);
/* Prints the rows that a dry run may name. */
void devices_print(void);
