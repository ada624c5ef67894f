/* How large a checkpoint is. */
#include "bench/checkpoint/checkpoint.h"
#include "plan/model/params.h"

double checkpoint_bytes(const bench_case *c)
{
    param_list l = params_of_case(c);
    double bytes = 0.0;
    for (int i = 0; i < l.count; i++) {
        const param_rule *p = &l.rule[i];
        kept_format weight = p->kept.master == KEPT_NOT ? p->kept.weight : p->kept.master;
        double each = kept_bytes(weight) + 2 * kept_bytes(p->kept.moment);
        double copies = (double)param_repeats(p, c->model.layers) * (p->experts ? (double)p->experts : 1.0);
        bytes += each * copies * (double)p->rows * (double)p->columns;
    }
    return bytes;
}
