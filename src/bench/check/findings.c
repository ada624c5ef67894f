/* Sums of the findings of machines. */
#include "bench/check/findings.h"
#include <stdio.h>
#include <string.h>

static void add_shadow(shadow_report *to, const shadow_report *s)
{
    to->operations += s->operations;
    to->elements += s->elements;
    to->left_out += s->left_out;
    to->products += s->products;
    to->comparisons += s->comparisons;
    if (s->worst_comparison >= to->worst_comparison) {
        to->worst_comparison = s->worst_comparison;
        memcpy(to->worst_product, s->worst_product, sizeof to->worst_product);
    }
    if (s->left_out && !to->first_left_out[0]) memcpy(to->first_left_out, s->first_left_out, sizeof to->first_left_out);
    if (s->worst >= to->worst) {
        to->worst = s->worst;
        memcpy(to->worst_operation, s->worst_operation, sizeof to->worst_operation);
    }
    if (s->failed && !to->failed) {
        memcpy(to->sentence, s->sentence, sizeof to->sentence);
        memcpy(to->file, s->file, sizeof to->file);
        memcpy(to->unwritten, s->unwritten, sizeof to->unwritten);
    }
    to->failed += s->failed;
}

void findings_add(machine_findings *f, const machine *m, shadow_report *seen)
{
    const hazard_report *h = machine_hazards(m);
    if (h->count && !f->hazards) snprintf(f->hazard, sizeof f->hazard, "%s", h->sentence[0]);
    f->hazards += h->count;
    f->faults += prove_faults(m);
    if (prove_shadowed(m)) add_shadow(seen, prove_shadowed(m));
}
