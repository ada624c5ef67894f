/* Lines of checkpoints. */
#include "bench/report/checkpoint_lines.h"
#include "base/say.h"
#include "base/text.h"
#include <math.h>

static void say_checkpoint(const char *what, int64_t step, double bytes, double seconds, const char *sum)
{
    say("%-10s step %lld: %.4g GB in %.3f s, %.4g GB/s\n           SHA-256 of its index %s\n", what, (long long)step,
        bytes / 1e9, seconds, bytes / seconds / 1e9, sum);
}

static void say_pauses(const case_result *r)
{
    double sum = 0.0, most = 0.0;
    int64_t pauses = 0;
    for (int64_t s = r->given->warmup; s < r->seen.completed; s++) {
        if (step_counts(&r->seen, s)) continue;
        sum += r->seen.pause[s];
        most = fmax(most, r->seen.pause[s]);
        pauses++;
    }
    if (!pauses) return;
    say("Pauses     %.3f s on average, %.3f s at most, before %lld timed step%s, which the mean leaves out\n",
        sum / (double)pauses, most, (long long)pauses, plural(pauses));
}

void say_checkpoints(const case_result *r)
{
    const checkpoint_facts *k = &r->seen.checkpoint;
    if (k->loaded_step) say_checkpoint("Loaded", k->loaded_step, k->loaded_bytes, k->load_seconds, k->loaded_sha256);
    if (k->saves) say_checkpoint("Checkpoint", k->saved_step, k->bytes, k->seconds, k->sha256);
    if (k->read_seconds > 0.0)
        say("           read back in %.3f s, %.4g GB/s\n", k->read_seconds, k->bytes / k->read_seconds / 1e9);
    say_pauses(r);
}
