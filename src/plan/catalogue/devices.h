/* GPUs: peaks, memory, node and NVLink domain. */
#pragma once
#include "base/text.h"

/* Dense peaks in flop/s: half of what data sheets print "with sparsity". FP8 is 0 on a GPU without it. */
typedef struct {
    const char *name;
    double bf16, fp8;
    double memory_bytes; /* as CUDA reports it: nvidia-smi's total less what the driver keeps */
    int domain;          /* GPUs in an NVLink domain */
    int node;            /* GPUs in a node */
} device_row;

/* Device of a dry run that names none. Every published layout has a cell for it. */
#define PAPER_DEVICE "H100"
/* Returns row i; NULL after the last. */
const device_row *device_at(int i);
/* Returns the row whose name the device's name begins with, after "NVIDIA ": "NVIDIA H100 80GB HBM3" or "H100". A blank
 * equals a hyphen. Returns NULL if there is none, and for a part of a GPU (MIG). */
const device_row *device_find(const char *name);
/* Returns the memory in bytes; that of PAPER_DEVICE if the name is NULL or unknown. */
double device_bytes(const char *name);
/* Returns the GPUs of the device's NVLink domain; those of PAPER_DEVICE if the device is unknown. */
int device_domain(const char *name);
/* Returns the row for --device. If the name has none, returns NULL and writes a sentence with all names. */
const device_row *device_named(const char *name, char *sentence, size_t length);
/* Returns whether the device is the GPU of a cell. Cells are of SXM modules and trays; other cards and parts of a GPU
 * are slower. */
bool device_is(const char *device, const char *gpu);
/* Prints the rows. */
void devices_print(void);
