/* Kinds of machines: each function is the backend's. */
#include "machine/kind.h"
#include "machine/backend.h"

bool machine_built(machine_kind kind) { return backend_of(kind)->submit != NULL; }
bool machine_usable(machine_kind kind, char *why, size_t length) { return backend_of(kind)->usable(why, length); }
machine_device machine_device_of(machine_kind kind) { return backend_of(kind)->device(); }
int machine_threads(machine_kind kind) { return backend_of(kind)->threads(); }
const char *machine_library(machine_kind kind, char *text, size_t length)
{
    return backend_of(kind)->library(text, length);
}
const char *machine_engines(machine_kind kind, char *text, size_t length)
{
    return backend_of(kind)->engines(text, length);
}

void *machine_memory_take(machine_kind kind, size_t bytes) { return backend_of(kind)->take(bytes); }
void machine_memory_give_back(machine_kind kind, void *memory) { backend_of(kind)->give_back(memory); }
void machine_memory_clear(machine_kind kind, void *memory, int byte, size_t bytes)
{
    backend_of(kind)->clear(memory, byte, bytes);
}

/* Of the process, as its devices are. */
static bool devices_are_shared;

void machine_share_devices(bool yes) { devices_are_shared = yes; }
bool machine_shares_devices(void) { return devices_are_shared; }

void group_connect(machine_kind kind, struct group *g, const char *name, int color, int key)
{
    backend_of(kind)->connect(g, name, color, key);
}
void group_disconnect(machine_kind kind, const char *name) { backend_of(kind)->disconnect(name); }
