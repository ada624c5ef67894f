/* If the run is killed during a write, the check word of the last entry does not match. */
#include "bench/record/journal.h"
#include "base/fail.h"
#include "base/sha256.h"
#include "bench/facts/accept.h"
#include "bench/facts/sink.h"
#include "bench/record/groups.h"
#include "bench/record/place.h"
#include "bench/record/provenance.h"
#include "bench/record/record.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* writev writes at most 2,147,479,552 bytes. It writes fewer if the disk becomes full, and the next call fails. */
static bool write_parts(int file, struct iovec part[2])
{
    while (part[0].iov_len + part[1].iov_len) {
        ssize_t written = writev(file, part, 2);
        if (written < 0 && errno == EINTR) continue;
        if (written == 0) errno = ENOSPC;
        if (written <= 0) return false;
        for (int i = 0; i < 2; i++) {
            size_t of_part = (size_t)written < part[i].iov_len ? (size_t)written : part[i].iov_len;
            part[i].iov_base = (char *)part[i].iov_base + of_part;
            part[i].iov_len -= of_part;
            written -= (ssize_t)of_part;
        }
    }
    return true;
}

static bool append(const record_place *p, journal_kind kind, const void *bytes, size_t length)
{
    journal_entry e = { .kind = kind, .bytes = (uint32_t)length };
    struct iovec part[] = { { &e, sizeof e }, { (void *)(uintptr_t)bytes, length } };
    char hex[SHA256_HEX];
    sha256 s;
    sha256_open(&s);
    sha256_add(&s, &e, offsetof(journal_entry, check));
    sha256_add(&s, bytes, length);
    sha256_close(&s, hex);
    memcpy(e.check, hex, sizeof e.check);
    return write_parts(p->file, part);
}

static bool append_piece(const record_place *p, writer *w, char *reason, size_t length)
{
    void *bytes;
    size_t size;
    if (!writer_close(w, &bytes, &size, reason, length)) return false;
    bool fits = (int64_t)size <= JOURNAL_ENTRY_MOST, written = fits && append(p, JOURNAL_PIECE, bytes, size);
    if (!fits)
        snprintf(reason, length,
                 "cannot write %s: the case has %zu bytes, an entry %lld at most; give fewer minutes or steps",
                 p->journal, size, (long long)JOURNAL_ENTRY_MOST);
    else if (!written) snprintf(reason, length, "cannot write %s: %s", p->journal, strerror(errno));
    free(bytes);
    return written;
}

/* SIGXFSZ is ignored, so a limit on file sizes becomes an error of writev. */
static bool open_journal(void **state, const run_source *run, char *reason, size_t length)
{
    static const char begin[] = JOURNAL_BEGIN;
    record_place *p = run->place;
    *state = p;
    if (p->none) return true;
    signal(SIGXFSZ, SIG_IGN);
    struct iovec part = { (void *)(uintptr_t)begin, sizeof begin - 1 };
    if (writev(p->file, &part, 1) != (ssize_t)sizeof begin - 1) {
        snprintf(reason, length, "cannot write %s: %s", p->journal, strerror(errno));
        return false;
    }
    writer *w = writer_open();
    record_write_root(w, NULL, 0, run->deck->cases);
    provenance_write(run->provenance, w);
    return append_piece(p, w, reason, length);
}

static void append_or_fail(const record_place *p, writer *w)
{
    char reason[2048];
    if (!append_piece(p, w, reason, sizeof reason)) FAIL_STATUS(STATUS_RECORD, "journal: %s", reason);
}

/* The recorded verdict is INTERRUPTED, in case the run is killed. */
static void begin_case(void *state, const bench_case *c)
{
    const record_place *p = state;
    case_result begun = { .given = c, .ruling.verdict = VERDICT_INTERRUPTED };
    if (p->none) return;
    accept_case(&begun);
    writer *w = writer_open();
    case_write_settings(w, &begun);
    append_or_fail(p, w);
}

static void add_step(void *state, const case_result *r, const step_now *now)
{
    int64_t step = now->step;
    const record_place *p = state;
    journal_step s = { r->given->number,
                       step,
                       { r->seen.own_seconds[step], r->seen.loss[step], r->seen.gradient_norm[step],
                         r->seen.learning_rate[step] } };
    if (p->none) return;
    for (int i = 0; i < ROUTED_FACTS; i++) s.number[STEP_NUMBERS - ROUTED_FACTS + i] = r->seen.routed[i][step];
    if (!append(p, JOURNAL_STEP, &s, sizeof s))
        FAIL_STATUS(STATUS_RECORD, "journal: cannot write %s: %s", p->journal, strerror(errno));
}

static void end_case(void *state, const case_result *r)
{
    const record_place *p = state;
    if (p->none) return;
    writer *w = writer_open();
    case_write(w, r);
    append_or_fail(p, w);
}

/* Deletes the journal, because the record has everything or no case ran. If the record failed, the run has ended. */
static void end_run(void *state, const run_source *run, const final_counts *n)
{
    (void)run;
    if (n) place_delete_journal(state);
}

const sink journal_sink = {
    .name = "journal", .open = open_journal, .begin = begin_case, .step = add_step, .end = end_case, .close = end_run
};
