/* Device memory, and bytes between it and the host. Each call synchronizes what it started, and nothing else. */
#pragma once
#include <stddef.h>

void *cuda_memory_take(size_t bytes);
void cuda_memory_give_back(void *memory);
void cuda_memory_clear(void *memory, int byte, size_t bytes);

/* A stream and pinned memory through which bytes pass. */
typedef struct staging staging;
staging *staging_open(void);
void staging_close(staging *s);
void staging_upload(staging *s, void *to, const void *from, size_t bytes);
void staging_download(staging *s, void *to, const void *from, size_t bytes);
