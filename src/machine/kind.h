/* Kinds of machines: what this process can say of one, and get from it, without opening a machine. */
#pragma once
#include "machine/options.h"

struct group; /* machine/group.h */

/* Is it part of this build? One that is not can be opened on paper all the same, where it needs no scratch. */
bool machine_built(machine_kind kind);
/* Can it run here? */
bool machine_usable(machine_kind kind, char *why, size_t length);          /* why not: a clause, if not */
machine_device machine_device_of(machine_kind kind);                       /* this rank's */
int machine_threads(machine_kind kind);                                    /* per rank */
const char *machine_library(machine_kind kind, char *text, size_t length); /* it computes with, as loaded */
/* What runs attention and products, as chosen by the operations so far: a line, then one for each product. */
const char *machine_engines(machine_kind kind, char *text, size_t length);

/* Memory for an arena on that kind of machine. */
void *machine_memory_take(machine_kind kind, size_t bytes);
void machine_memory_give_back(machine_kind kind, void *memory);
void machine_memory_clear(machine_kind kind, void *memory, int byte, size_t bytes);

/* Ranks of this run share devices: said once, before the first communicator, by all ranks alike. */
void machine_share_devices(bool yes);
bool machine_shares_devices(void);
/* The group gets the communicator of the split of the world of that name, color and key (world_split), or what this
 * kind of machine has in its place. Collective over the world, in the same order on all ranks; disconnected by name as
 * often. */
void group_connect(machine_kind kind, struct group *g, const char *name, int color, int key);
void group_disconnect(machine_kind kind, const char *name);
