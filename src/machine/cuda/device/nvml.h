/* What NVIDIA's management library says of a GPU right now. */
#pragma once
#include "machine/sample/sampler.h"

/* now: as it is for samples; clock of the multiprocessors, temperature of the chip, the rest of the whole board.
 * Zeros and empty words where the library, or one of its answers, is not there. */
typedef struct {
    char driver[24], fabric[48]; /* fabric: as in machine_device */
    bool ecc, clocks_known;      /* clocks_known: whether it is throttled is */
    device_state now;
} nvml_state;

/* What a board is: as in machine_device. */
typedef struct {
    char bus[32], serial[32];
    double power_limit_watts, clock_limit_hertz;
} nvml_board;

/* identity: "GPU-8a6b...", whichever GPUs this process sees. */
nvml_state nvml_read(const char *identity);
nvml_board nvml_read_board(const char *identity);
