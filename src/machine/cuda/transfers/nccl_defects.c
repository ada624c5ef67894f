/* The table of NCCL's defects, by version. */
#include "machine/cuda/transfers/nccl_defects.h"
#include "machine/cuda/device/environment.h"
#include "machine/cuda/device/libraries.h"
#include <stdio.h>

/* Versions as ncclGetVersion gives them: 22907 is 2.29.7. `from` has the defect, `fixed` is the first without it. */
static const struct {
    int from, fixed;
    const char *what, *source;
} defects[NCCL_DEFECTS] = {
    [DEFECT_PAIR_WINDOWS] = { 22907, 23102, "hangs in the first collective of copy engines between two ranks",
                              "NVIDIA/nccl issue 2241" },
    [DEFECT_LINKS] = { 23007, 23102, "hangs in pipelines", "NVIDIA/jaxpp issue 11" },
};

static void version_words(char words[16], int version)
{
    snprintf(words, 16, "%d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
}

bool nccl_has_defect(nccl_defect which, char *why, size_t length)
{
    char loaded[16], fixed[16];
    int version = 0;
    if (!nccl_load(why, length) || ncclGetVersion(&version) != ncclSuccess) return false;
    if (version < defects[which].from || version >= defects[which].fixed) return false;
    version_words(loaded, version);
    version_words(fixed, defects[which].fixed);
    snprintf(why, length, "NCCL %s %s (%s): load %s or newer", loaded, defects[which].what, defects[which].source,
             fixed);
    return true;
}

bool cuda_transfers_suit(bool links, char *why, size_t length)
{
    return cuda_environment_suits(why, length) && !(links && nccl_has_defect(DEFECT_LINKS, why, length));
}
