/* Device memory, and copies between it and the host. Each call waits only for the work that it starts. */
#pragma once
#include <stddef.h>

/* Allocates device memory. Ends the run if there is not enough. */
void *cuda_memory_take(size_t bytes);
void cuda_memory_give_back(void *memory);
void cuda_memory_clear(void *memory, int byte, size_t bytes);

/* A stream and pinned host memory that copies go through. */
typedef struct staging staging;
staging *staging_open(void);
void staging_close(staging *s);
void staging_upload(staging *s, void *to, const void *from, size_t bytes);
void staging_download(staging *s, void *to, const void *from, size_t bytes);
