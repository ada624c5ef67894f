/* How many thread blocks a communicator may take. */
#pragma once

typedef struct {
    int link, collective;
} thread_blocks;
/* In the room that products leave (machine_room_left); the same on all ranks. */
thread_blocks thread_blocks_granted(void);
