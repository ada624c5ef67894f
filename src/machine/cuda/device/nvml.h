/* What NVIDIA's management library says of a GPU right now. */
#pragma once
#include <stdbool.h>

/* Zeros and empty words where the library, or one of its answers, is not there. */
typedef struct {
    char driver[24];
    double clock_hertz, power_watts;   /* of the multiprocessors; of the whole board */
    bool ecc, clocks_known, throttled; /* clocks_known: whether it is throttled is */
    char throttle_reasons[96];         /* words with commas between */
} nvml_state;

/* identity: "GPU-8a6b...", whichever GPUs this process sees. */
nvml_state nvml_read(const char *identity);
