/* XGSW_TEST_SHARE_DEVICES=yes: a test's ranks may share a GPU; known before the first communicator. */
#pragma once
#include "machine/queue/machine.h"
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void ranks_may_share_devices(void)
{
    const char *share = getenv("XGSW_TEST_SHARE_DEVICES");
    machine_share_devices(share && strcmp(share, "yes") == 0);
}
