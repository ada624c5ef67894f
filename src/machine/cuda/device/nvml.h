/* Current state of a GPU, from NVIDIA's management library. */
#pragma once
#include "machine/sample/sampler.h"

/* now: clock of the multiprocessors, temperature of the chip, power and energy of the board. A value is 0, NaN or empty
 * if the library or its function is missing. */
typedef struct {
    char driver[24], fabric[48]; /* as in machine_device */
    bool ecc, clocks_known;      /* clocks_known: whether the GPU is throttled is known */
    device_state now;
} nvml_state;

/* Properties of a board, as in machine_device. */
typedef struct {
    char bus[32], serial[32];
    double power_limit_watts, clock_limit_hertz;
} nvml_board;

/* identity: "GPU-8a6b..."; the GPU need not be visible to this process. */
nvml_state nvml_read(const char *identity);
nvml_board nvml_read_board(const char *identity);
