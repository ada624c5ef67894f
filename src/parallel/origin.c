/* Origins of operations. */
#include "parallel/origin.h"

origin origin_step(machine *m, int64_t step, phase p)
{
    return machine_origin(m, (origin){ .step = step, .microbatch = -1, .chunk = -1, .layer = -1, .phase = p });
}

origin origin_microbatch(machine *m, phase p, int chunk, int64_t microbatch)
{
    int64_t step = machine_origin_now(m).step;
    return machine_origin(m,
                          (origin){ .step = step, .microbatch = microbatch, .chunk = chunk, .layer = -1, .phase = p });
}

origin origin_layer(machine *m, phase p, int64_t layer)
{
    origin next = machine_origin_now(m);
    next.phase = p;
    next.layer = (int)layer;
    return machine_origin(m, next);
}

origin origin_phase(machine *m, phase p) { return origin_layer(m, p, machine_origin_now(m).layer); }
void origin_restore(machine *m, origin before) { machine_origin(m, before); }
