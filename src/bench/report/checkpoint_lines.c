/* Checkpoints. */
#include "bench/report/checkpoint_lines.h"
#include "base/say.h"
#include "base/text.h"
#include <math.h>

static void say_loaded(const checkpoint_facts *k)
{
    if (!k->loaded_step) return;
    say("Loaded     step %lld: %.4g GB in %.3f s, %.3g GB/s; all sums are right\n", (long long)k->loaded_step,
        k->loaded_bytes / 1e9, k->load_seconds, k->loaded_bytes / k->load_seconds / 1e9);
    say("           SHA-256 of its index %s\n", k->loaded_sha256);
}

static void say_saved(const checkpoint_facts *k)
{
    if (k->failed[0]) say("Checkpoint NOT SAVED: %s\n", k->failed);
    if (!k->saves) return;
    say("Checkpoint step %lld: %.4g GB in %.3f s, %.3g GB/s; slowest rank %.3g GB/s, a node %.3g GB/s; fsync %.0f %%\n",
        (long long)k->saved_step, k->bytes / 1e9, k->seconds, k->bytes / k->seconds / 1e9, k->rank_rate / 1e9,
        k->node_rate / 1e9, 100.0 * k->sync_seconds / k->write_seconds);
    say("           %s, %.4g GB were free", k->file_system, k->free_bytes / 1e9);
    if (k->read_seconds > 0.0)
        say("; read back in %.3f s, %.3g GB/s", k->read_seconds, k->bytes / k->read_seconds / 1e9);
    say("\n           SHA-256 of its index %s\n", k->sha256);
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
    say("Pauses     %.3f s on average, %.3f s at most, before %lld timed step%s: the mean is without %s\n",
        sum / (double)pauses, most, (long long)pauses, plural(pauses), pauses == 1 ? "it" : "them");
}

void say_checkpoints(const case_result *r)
{
    say_loaded(&r->seen.checkpoint);
    say_saved(&r->seen.checkpoint);
    say_pauses(r);
}
