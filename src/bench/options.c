/* The command line. */
#include "bench/options.h"
#include "base/say.h"
#include "base/text.h"
#include "plan/bench_case.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_RANKS = 1 << 20 };

static void read_ranks(options *o, const char *words)
{
    for (const char *at = words; !o->mistake[0];) {
        char *end;
        long n = strtol(at, &end, 10);
        if (end == at || n < 1 || n > LARGEST_RANKS || o->rank_counts == OPTION_RANKS || (*end && *end != ','))
            snprintf(o->mistake, sizeof o->mistake,
                     "--ranks %.80s: give 1 to %d counts from 1 to %d, separated by commas", words, OPTION_RANKS,
                     LARGEST_RANKS);
        else o->ranks[o->rank_counts++] = (int)n;
        if (!*end) break;
        at = end + 1;
    }
}

static void read_seconds(options *o, const char *word)
{
    if (text_real(text_of(word), &o->step_seconds) != NUMBER_READ || o->step_seconds <= 0.0)
        snprintf(
            o->mistake, sizeof o->mistake,
            "--step-seconds %.80s: give the seconds of a measured step of the first case, as in --step-seconds 12.3",
            word);
}

const char *options_asked(const options *o)
{
    if (o->help) return "--help";
    if (o->version) return "--version";
    if (o->keys) return "--keys";
    if (o->fields) return "--fields";
    if (o->list) return "--list";
    if (o->replay) return "--replay";
    return o->dry_run ? "--dry-run" : NULL;
}

static void read_memory(options *o, const char *word)
{
    bool read = text_real(text_of(word), &o->device_bytes) == NUMBER_READ && o->device_bytes > 0.0;
    if (!read)
        snprintf(o->mistake, sizeof o->mistake,
                 "--device-memory %.80s: give a device's memory in GB, 10^9 bytes, as in --device-memory 141", word);
    o->device_bytes *= 1e9;
}

options options_read(int argc, char **argv)
{
    options o = { 0 };
    for (int i = 1; i < argc && !o.mistake[0]; i++) {
        const char *a = argv[i];
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) o.help = true;
        else if (!strcmp(a, "--version")) o.version = true;
        else if (!strcmp(a, "--keys") || !strcmp(a, "--list")) {
            *(a[2] == 'k' ? &o.keys : &o.list) = true;
            if (i + 1 < argc && argv[i + 1][0] != '-') o.name = argv[++i];
        } else if (!strcmp(a, "--fields")) o.fields = true;
        else if (!strcmp(a, "--dry-run")) o.dry_run = true;
        else if (!strcmp(a, "--schedule")) o.schedule = true;
        else if (!strcmp(a, "--ranks") && i + 1 < argc) read_ranks(&o, argv[++i]);
        else if (!strncmp(a, "--ranks=", 8)) read_ranks(&o, a + 8);
        else if (!strcmp(a, "--ranks"))
            snprintf(o.mistake, sizeof o.mistake, "--ranks needs a count, as in --ranks 8,512");
        else if (!strcmp(a, "--device-memory")) read_memory(&o, i + 1 < argc ? argv[++i] : "");
        else if (!strcmp(a, "--step-seconds")) read_seconds(&o, i + 1 < argc ? argv[++i] : "");
        else if (!strcmp(a, "--on-host")) o.on_host = true;
        else if (!strcmp(a, "--progress")) o.progress = true;
        else if (!strcmp(a, "--strict")) o.strict = true;
        else if (!strcmp(a, "--verbose")) o.verbose = true;
        else if (!strcmp(a, "--json") && i + 1 < argc) o.json = argv[++i];
        else if (!strcmp(a, "--json"))
            snprintf(o.mistake, sizeof o.mistake, "--json needs a file; --json - writes to stdout");
        else if (!strcmp(a, "--replay") && i + 1 < argc) o.replay = argv[++i];
        else if (!strcmp(a, "--replay"))
            snprintf(o.mistake, sizeof o.mistake, "--replay needs the file that a mismatch named");
        else if (a[0] == '-' && a[1]) snprintf(o.mistake, sizeof o.mistake, "%.80s is no option; --help lists them", a);
        else if (o.deck) snprintf(o.mistake, sizeof o.mistake, "two decks, %.80s and %.80s: give one", o.deck, a);
        else o.deck = a;
    }
    const char *asked = options_asked(&o);
    bool needs_deck = !asked || strcmp(asked, "--dry-run") == 0;
    if (!o.mistake[0] && needs_deck && !o.deck)
        snprintf(o.mistake, sizeof o.mistake, "no deck is given: try xgsw gsw.dat, or --help");
    if (!o.mistake[0] && o.rank_counts && !o.dry_run)
        snprintf(o.mistake, sizeof o.mistake, "--ranks goes with --dry-run; mpirun -np sets the ranks of a run");
    if (!o.mistake[0] && o.step_seconds > 0.0 && !o.dry_run)
        snprintf(o.mistake, sizeof o.mistake, "--step-seconds goes with --dry-run; a run measures its own");
    if (!o.mistake[0] && o.strict && o.dry_run)
        snprintf(o.mistake, sizeof o.mistake, "--strict goes with a run; a dry run judges no case");
    if (!o.mistake[0] && o.json && asked && !o.dry_run)
        snprintf(o.mistake, sizeof o.mistake, "--json goes with a run or a dry run; %s has no cases", asked);
    if (!o.mistake[0] && o.on_host && !o.dry_run)
        snprintf(o.mistake, sizeof o.mistake,
                 "--on-host goes with --dry-run; for a run write backend = host into the deck");
    if (!o.mistake[0] && o.device_bytes > 0.0 && !o.dry_run)
        snprintf(o.mistake, sizeof o.mistake, "--device-memory goes with --dry-run; a run finds the devices' out");
    if (o.device_bytes == 0.0) o.device_bytes = DEVICE_BYTES;
    if (!o.mistake[0] && o.deck && (o.keys || o.list))
        snprintf(o.mistake, sizeof o.mistake, "%s answers for all or for one name; %.80s is one more",
                 o.keys ? "--keys" : "--list", o.deck);
    if (!o.mistake[0] && o.schedule && !o.dry_run)
        snprintf(o.mistake, sizeof o.mistake, "--schedule goes with --dry-run; a run shows no lists");
    return o;
}

void options_print_help(void)
{
    say("usage: mpirun -np N ./xgsw DECK             run every case of the deck, e.g. gsw.dat\n"
        "       ./xgsw --dry-run DECK [--ranks N,N]  layout, parameters, bytes and flops of every case, at N ranks\n"
        "                             [--schedule]   and what each pipeline stage does when, as lists and "
        "as a picture\n"
        "                     [--step-seconds X]     and how long all its steps take, if one of the first case takes "
        "X\n"
        "                     [--device-memory GB]   and whether a rank fits a device of so much (default 80)\n"
        "                     [--on-host]            with backend = auto the host, not a GPU\n"
        "                     [--json FILE]          and one object a case: resolved keys, forecast; - prints only "
        "these\n"
        "       ./xgsw --keys [NAME | developer]     the deck's keys, one key, or the keys for tests of the program\n"
        "       ./xgsw --fields                      what is known of a case: units and meaning, in --json "
        "and the record\n"
        "       ./xgsw --list [NAME]                 the catalogue of workloads, or one, and recipe rows\n"
        "       ./xgsw --replay FILE                 an operation that differed from the host's, run again alone\n"
        "       ./xgsw --version                     versions of everything it was built with\n"
        "       ./xgsw --help                        this text\n"
        "A deck is looked for as given, then in the present folder's inputs/, then in the inputs/ next to the "
        "program.\n"
        "--progress: stdout is a terminal, though the launcher hides it.\n"
        "--json FILE: all keys and fields of each case of a run, one object a line; - is stdout.\n"
        "--strict: a case that is SKIPPED or NOT VALID is a failure.\n"
        "--verbose: the report has more lines of each case; the record has these numbers in any run.\n"
        "Exit status: 0 all PASSED or SKIPPED, 1 something FAILED or NOT ACCEPTED, 2 refused, 3 nothing trained: all "
        "SKIPPED,\n75 stopped on request before its end, 86 no progress for stall_seconds, 87 record or report not "
        "written.\n");
}
