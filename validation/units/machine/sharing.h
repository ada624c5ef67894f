/* Settings that main() needs before ranks start: the libraries' environment, and whether ranks may share a GPU
 * (XGSW_TEST_SHARE_DEVICES=yes). */
#pragma once
#include "machine/queue/machine.h"
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void prepare_devices(void)
{
    machine_environment();
    const char *share = getenv("XGSW_TEST_SHARE_DEVICES");
    machine_share_devices(share && strcmp(share, "yes") == 0);
}
