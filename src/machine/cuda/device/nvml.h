/* What NVIDIA's management library says of a GPU right now. */
#pragma once
#include <stdbool.h>

/* Zeros, empty words, in the numbers of samples NaN, where the library, or one of its answers, is not there. */
typedef struct {
    char driver[24];
    double clock_hertz, power_watts; /* of the multiprocessors; of the whole board */
    double temperature, joules;      /* of the chip, degrees Celsius; of the whole board, since its driver was loaded */
    int events;                      /* the bits of throttle_reasons; -1: not told */
    bool ecc, clocks_known, throttled; /* clocks_known: whether it is throttled is */
    char throttle_reasons[96];         /* words with commas between */
} nvml_state;

/* identity: "GPU-8a6b...", whichever GPUs this process sees. */
nvml_state nvml_read(const char *identity);
