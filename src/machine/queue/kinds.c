/* The functions of kind.h: each calls the backend of the kind. */
#include "machine/queue/backend.h"
#include "machine/world.h"

const backend *backend_of(machine_kind kind) { return kind == MACHINE_CUDA ? cuda_backend() : host_backend(); }

void machine_environment(void)
{
    const backend *b = cuda_backend();
    if (b->environment) b->environment();
}

bool machine_supports_ranks(machine_kind kind, bool links, char *why, size_t length)
{
    const backend *b = backend_of(kind);
    return !b->supports_ranks || b->supports_ranks(links, why, length);
}

bool machine_built(machine_kind kind) { return backend_of(kind)->submit != NULL; }
bool machine_usable(machine_kind kind, char *why, size_t length) { return backend_of(kind)->usable(why, length); }
machine_device machine_device_of(machine_kind kind) { return backend_of(kind)->device(); }

sampler *machine_sampler(machine_kind kind)
{
    const sample_subject of = { .every = SAMPLE_SECONDS,
                                .device = backend_of(kind)->state,
                                .cores = world_node_rank() == 0 ? world_node_cores() : 0,
                                .core = world_node_core };
    return sampler_open(&of);
}

int machine_threads(machine_kind kind) { return backend_of(kind)->threads(); }
const char *machine_library(machine_kind kind, char *text, size_t length)
{
    return backend_of(kind)->library(text, length);
}
const char *machine_engines(machine_kind kind, char *text, size_t length)
{
    return backend_of(kind)->engines(text, length);
}
const char *machine_transfers(machine_kind kind, char *text, size_t length)
{
    const backend *b = backend_of(kind);
    text[0] = 0;
    return b->transfers ? b->transfers(text, length) : text;
}

void *machine_memory_take(machine_kind kind, size_t bytes) { return backend_of(kind)->take(bytes); }
void *machine_window_take(machine_kind kind, size_t bytes, struct group *const *of, int groups, struct group *all)
{
    const backend *b = backend_of(kind);
    return b->window ? b->window(bytes, of, groups, all) : b->take(bytes);
}
void machine_window_reserve(machine_kind kind, size_t bytes)
{
    const backend *b = backend_of(kind);
    if (b->window_reserve) b->window_reserve(bytes);
}
bool machine_window_serves(machine_kind kind, const struct group *g)
{
    const backend *b = backend_of(kind);
    return b->window_serves && b->window_serves(g);
}
void machine_memory_give_back(machine_kind kind, void *memory) { backend_of(kind)->give_back(memory); }
void machine_memory_clear(machine_kind kind, void *memory, int byte, size_t bytes)
{
    backend_of(kind)->clear(memory, byte, bytes);
}

bool machine_occupy(machine_kind kind, bool start)
{
    const backend *b = backend_of(kind);
    if (b->occupy) b->occupy(start);
    return b->occupy;
}

void machine_agree(machine_kind kind)
{
    const backend *b = backend_of(kind);
    if (b->agree) b->agree();
}

void group_connect(machine_kind kind, struct group *g, const char *name, int color, int key)
{
    backend_of(kind)->connect(g, name, color, key);
}
void group_disconnect(machine_kind kind, const char *name) { backend_of(kind)->disconnect(name); }
