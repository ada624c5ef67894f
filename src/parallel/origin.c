/* Origins. */
#include "parallel/origin.h"

static origin change(machine *m, origin to)
{
    origin before = *machine_origin_now(m);
    machine_origin(m, to);
    return before;
}

origin origin_step(machine *m, int64_t step, phase p)
{
    return change(m, (origin){ .step = step, .microbatch = -1, .chunk = -1, .layer = -1, .phase = p });
}

origin origin_microbatch(machine *m, phase p, int chunk, int64_t microbatch)
{
    int64_t step = machine_origin_now(m)->step;
    return change(m, (origin){ .step = step, .microbatch = microbatch, .chunk = chunk, .layer = -1, .phase = p });
}

origin origin_layer(machine *m, phase p, int64_t layer)
{
    origin to = *machine_origin_now(m);
    to.phase = p;
    to.layer = (int)layer;
    return change(m, to);
}

origin origin_phase(machine *m, phase p) { return origin_layer(m, p, machine_origin_now(m)->layer); }
void origin_restore(machine *m, origin before) { machine_origin(m, before); }
