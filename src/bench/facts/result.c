/* Results of cases. */
#include "bench/facts/result.h"
#include "base/text.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const verdict_words[VERDICTS] = { "PASSED", "FAILED", "SKIPPED", "INTERRUPTED" };
const char *const acceptance_words[] = { "", "ACCEPTED", "NOT ACCEPTED", "judged with the last repeat" };

void result_open(case_result *r, const bench_case *c)
{
    *r = (case_result){ .given = c, .seen = facts_open(c), .figures = figures_none(c) };
    r->ruling.expected_tokens_per_second = NAN;
}

void result_skip(case_result *r, const bench_case *c, const char *reason)
{
    *r = (case_result){ .given = c, .seen = facts_none(), .figures = figures_none(c) };
    ruling *of = &r->ruling;
    of->verdict = VERDICT_SKIPPED;
    of->expected_tokens_per_second = NAN;
    snprintf(of->skipped, sizeof of->skipped, "%s", reason);
    snprintf(of->comparison, sizeof of->comparison, "%s", verdict_words[VERDICT_SKIPPED]);
    reasons_add(&of->invalids, "skipped", -1, "SKIPPED: %s", reason);
}

void result_close(case_result *r)
{
    facts_close(&r->seen);
    figures_free(&r->figures);
    *r = (case_result){ .given = NULL };
}

const char *result_progress(const case_result *r, char text[PROGRESS_TEXT])
{
    const bench_case *c = r->given;
    int64_t completed = r->seen.completed, timed = completed > c->warmup ? completed - c->warmup : 0;
    int used = snprintf(text, PROGRESS_TEXT, "%lld of %s%lld step%s", (long long)timed,
                        c->minutes > 0.0 ? "at least " : "", (long long)c->steps, plural(c->steps));
    if (c->warmup)
        snprintf(text + used, PROGRESS_TEXT - (size_t)used, " and %lld of %lld of warm-up",
                 (long long)(completed - timed), (long long)c->warmup);
    return text;
}

const char *copy_text(const case_result *r, int copy, char text[COPY_TEXT])
{
    int ranks = r->given->layout.ranks, from = copy * ranks, to = from + ranks - 1;
    const char *first = r->seen.ranks.work[from].host, *last = r->seen.ranks.work[to].host;
    int used = snprintf(text, COPY_TEXT, "copy %d (rank%s %d", copy, plural(ranks), from);
    if (ranks > 1) used += snprintf(text + used, COPY_TEXT - (size_t)used, " to %d", to);
    bool apart = strcmp(first, last) != 0;
    snprintf(text + used, COPY_TEXT - (size_t)used, ", on %.26s%s%.26s)", first, apart ? " to " : "",
             apart ? last : "");
    return text;
}

void reasons_add(reasons *to, const char *rule, int rank, const char *format, ...)
{
    va_list arguments;
    case_reason added = { .rule = rule, .rank = rank };
    va_start(arguments, format);
    vsnprintf(added.sentence, sizeof added.sentence, format, arguments);
    va_end(arguments);
    for (int i = 0; i < to->count; i++)
        if (strcmp(to->list[i].sentence, added.sentence) == 0) return;
    if (to->count < CASE_REASONS) to->list[to->count++] = added;
}
