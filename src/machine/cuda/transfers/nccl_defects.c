/* Known defects of NCCL, by version. */
#include "machine/cuda/transfers/nccl_defects.h"
#include "machine/cuda/device/environment.h"
#include "machine/cuda/device/libraries.h"
#include <stdio.h>

/* Versions as in ncclGetVersion: 22907 is 2.29.7. Versions from `from` on, but before `fixed`, have the defect. */
static const struct {
    int from, fixed;
    const char *what, *source;
} defects[NCCL_DEFECTS] = {
    [DEFECT_PAIR_WINDOWS] = { 22907, 23102, "hangs in the first collective of copy engines between two ranks",
                              "NVIDIA/nccl issue 2241" },
    [DEFECT_LINKS] = { 23007, 23102, "hangs in pipelines", "NVIDIA/jaxpp issue 11" },
};

bool nccl_has_defect(nccl_defect which, char *why, size_t length)
{
    char loaded[VERSION_TEXT], fixed[VERSION_TEXT];
    int version = nccl_version();
    if (version < defects[which].from || version >= defects[which].fixed) return false;
    snprintf(why, length, "NCCL %s %s (%s): load %s or newer", library_version_text(version, loaded),
             defects[which].what, defects[which].source, library_version_text(defects[which].fixed, fixed));
    return true;
}

bool cuda_transfers_suit(bool links, char *why, size_t length)
{
    return cuda_environment_suits(why, length) && !(links && nccl_has_defect(DEFECT_LINKS, why, length));
}
