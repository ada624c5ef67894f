/* Means over the timed steps, of the tables that the record holds. */
#include "bench/report/rank_lines.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/health/outliers.h"
#include <math.h>

/* Milliseconds a step: of each rank, then over the ranks. */
typedef struct {
    double mean, least, most;
    int worst;
} spread;

static double mean_of_rank(const case_result *r, rank_table table, int rank)
{
    const bench_case *c = r->given;
    double seconds = 0.0;
    for (int64_t s = c->warmup; s < r->seen.completed; s++)
        seconds += r->seen.ranks.table[table][s * c->layout.ranks + rank];
    return 1e3 * seconds / (double)(r->seen.completed - c->warmup);
}

static spread spread_of(const case_result *r, rank_table table)
{
    spread x = { .least = INFINITY };
    int ranks = r->given->layout.ranks;
    for (int i = 0; i < ranks; i++) {
        double ms = mean_of_rank(r, table, i);
        x.mean += ms / ranks;
        x.least = fmin(x.least, ms);
        if (ms > x.most) x.most = ms, x.worst = i;
    }
    return x;
}

/* Means over ranks; without what is less than a part in a thousand of computing. */
static void say_waiting(const case_result *r, double computing)
{
    static const char *const axis[] = { "tensor", "context", "expert", "shard", "pipeline", "gradient", "all" };
    const char *before = "; waiting for";
    for (int a = 0; a < RANK_TABLES - RANK_WAITING_TENSOR; a++) {
        spread x = spread_of(r, (rank_table)(RANK_WAITING_TENSOR + a));
        if (x.mean < 1e-3 * computing) continue;
        say("%s %s %.3g ms", before, axis[a], x.mean);
        before = ",";
    }
}

static void say_paces(const case_result *r)
{
    int slow = 0, judged = 0, ranks = r->given->layout.ranks;
    for (int i = 0; i < ranks; i++) {
        slow += pace_is_outlier(&r->figures.pace[i]);
        judged += !isnan(r->figures.pace[i].excess);
    }
    if (!paces_are_known(&r->seen, r->given)) say("; not judged: their threads share cores\n");
    else if (slow) say("; %d rank%s %s slow\n", slow, plural(slow), slow > 1 ? "are" : "is");
    else if (judged == ranks) say("; no rank is slow\n");
    else if (r->seen.completed - r->given->warmup < BLOCKS) say("; not judged: fewer than %d steps\n", BLOCKS);
    else say("; %d of %d not judged: each has other work\n", ranks - judged, ranks);
}

void say_ranks(const case_result *r)
{
    if (r->given->layout.ranks == 1) return;
    spread own = spread_of(r, RANK_COMPUTING);
    say("Ranks      computing %.4f s a step; rank %d most, %.4f s", 1e-3 * own.mean, own.worst, 1e-3 * own.most);
    say_paces(r);
}

void say_rank_details(const case_result *r)
{
    if (r->given->layout.ranks == 1) return;
    spread own = spread_of(r, RANK_COMPUTING), delay = spread_of(r, RANK_RUN_DELAY), late = spread_of(r, RANK_LATE);
    say("Ranks      computing at least %.3g ms a step", own.least);
    say_waiting(r, own.mean);
    say("; last to come: rank %d, by %.3g ms", late.worst, late.most);
    if (delay.most > 0.01 * own.mean)
        say("; processors ran other programs for %.3g ms (most %.3g, rank %d)", delay.mean, delay.most, delay.worst);
    say("\n");
}
