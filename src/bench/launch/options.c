/* Reading of options, and their help. */
#include "bench/launch/options.h"
#include "base/say.h"
#include "base/text.h"
#include "plan/catalogue/devices.h"
#include <stddef.h>
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

static void read_node_ranks(options *o, const char *word)
{
    int64_t ranks = 0;
    if (text_integer(text_of(word), &ranks) == NUMBER_READ && ranks > 0 && ranks <= LARGEST_RANKS)
        o->node_ranks = (int)ranks;
    else snprintf(o->mistake, sizeof o->mistake, "--node-ranks %.80s: give the ranks of a node, from 1", word);
}

static double read_positive(options *o, const char *name, const char *word, const char *remedy)
{
    double number;
    if (text_real(text_of(word), &number) == NUMBER_READ && number > 0.0) return number;
    snprintf(o->mistake, sizeof o->mistake, "%s %.80s: give %s", name, word, remedy);
    return 0.0;
}

static void read_seconds(options *o, const char *word)
{
    o->step_seconds = read_positive(o, "--step-seconds", word,
                                    "the seconds of a measured step of the first case, as in --step-seconds 12.3");
}

static void read_sustained(options *o, const char *word)
{
    o->sustained = read_positive(o, "--seconds", word, "how long a slice runs each operation, as in --seconds 2");
}

static void read_rank(options *o, const char *word)
{
    if (text_integer(text_of(word), &o->rank) != NUMBER_READ || o->rank < 0)
        snprintf(o->mistake, sizeof o->mistake, "--rank %.80s: give a rank of the case, from 0", word);
}

static void read_memory(options *o, const char *word)
{
    o->device_bytes = 1e9 * read_positive(o, "--device-memory", word,
                                          "a device's memory in GB, 10^9 bytes, as in --device-memory 141");
}

static void read_device(options *o, const char *word)
{
    char why[sizeof o->mistake];
    const device_row *row = device_named(word, why, sizeof why);
    if (row) o->device = row->name;
    else memcpy(o->mistake, why, sizeof why);
}

static void read_sheet(options *o, const char *word) { o->sheet = word; }

static void read_vary(options *o, const char *word) { o->vary = word; }

static void read_from(options *o, const char *word) { o->from = word; }

static void read_timeline(options *o, const char *word) { o->timeline = word; }

static void read_json(options *o, const char *word) { o->json = word; }

static void read_replay(options *o, const char *word) { o->replay = word; }

/* Options without a value, and the place of each. */
static const struct {
    const char *name;
    size_t flag;
} flags[] = {
    { "--help", offsetof(options, help) },           { "-h", offsetof(options, help) },
    { "--version", offsetof(options, version) },     { "--fields", offsetof(options, fields) },
    { "--dry-run", offsetof(options, dry_run) },     { "--schedule", offsetof(options, schedule) },
    { "--on-host", offsetof(options, on_host) },     { "--progress", offsetof(options, progress) },
    { "--strict", offsetof(options, strict) },       { "--verbose", offsetof(options, verbose) },
    { "--rules", offsetof(options, rules) },         { "--slice", offsetof(options, slice) },
    { "--stages", offsetof(options, stages) },       { "--project", offsetof(options, project) },
    { "--calibrate", offsetof(options, calibrate) },
};

/* Options with a value, the function that reads it, and the remedy if it is missing. */
static const struct {
    const char *name;
    void (*read)(options *o, const char *word);
    const char *missing;
} valued[] = {
    { "--ranks", read_ranks, "a count, as in --ranks 8,512" },
    { "--node-ranks", read_node_ranks, "the ranks of a node, as in --node-ranks 8" },
    { "--device", read_device, "a GPU's name, as in --device B200" },
    { "--device-memory", read_memory, "a device's memory in GB, as in --device-memory 141" },
    { "--step-seconds", read_seconds, "the seconds of a measured step, as in --step-seconds 12.3" },
    { "--seconds", read_sustained, "how long a slice runs each operation, as in --seconds 2" },
    { "--sheet", read_sheet, "a machine, as in --sheet dgx-h100" },
    { "--vary", read_vary, "a term of the sheet, as in --vary network" },
    { "--from", read_from, "the record of a run, as in --from gsw.h5" },
    { "--timeline", read_timeline, "a file for the trace that Perfetto opens" },
    { "--rank", read_rank, "a rank of the case, as in --rank 0" },
    { "--json", read_json, "a file; --json - writes to stdout" },
    { "--replay", read_replay, "an xgsw-mismatch file, named after FAILED" },
};

static bool read_flag(options *o, const char *word)
{
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(word, flags[i].name) == 0) return *(bool *)((char *)o + flags[i].flag) = true;
    return false;
}

static bool read_table(options *o, char **word)
{
    bool keys = strcmp(*word, "--keys") == 0, list = strcmp(*word, "--list") == 0;
    o->keys |= keys, o->list |= list;
    if ((keys || list) && word[1] && word[1][0] != '-') o->name = word[1];
    return keys || list;
}

static bool read_valued(options *o, char **word)
{
    for (size_t i = 0; i < sizeof valued / sizeof *valued; i++) {
        if (strcmp(*word, valued[i].name) != 0) continue;
        if (word[1]) valued[i].read(o, word[1]);
        else snprintf(o->mistake, sizeof o->mistake, "%s needs %s", *word, valued[i].missing);
        return true;
    }
    return false;
}

/* Reads the next option or the deck. Returns the number of words that it read. */
static int read_next(options *o, char **word)
{
    const char *name = o->name;
    if (read_flag(o, *word)) return 1;
    if (read_table(o, word)) return o->name != name ? 2 : 1;
    if (read_valued(o, word)) return 2;
    if (strncmp(*word, "--ranks=", 8) == 0) read_ranks(o, *word + 8);
    else if ((*word)[0] == '-' && (*word)[1])
        snprintf(o->mistake, sizeof o->mistake, "%.80s is not an option; --help lists them", *word);
    else if (o->deck) snprintf(o->mistake, sizeof o->mistake, "two decks, %.80s and %.80s: give one", o->deck, *word);
    else o->deck = *word;
    return 1;
}

const char *options_serial_mode(const options *o)
{
    if (o->help) return "--help";
    if (o->version) return "--version";
    if (o->keys) return "--keys";
    if (o->fields) return "--fields";
    if (o->rules) return "--rules";
    if (o->list) return "--list";
    if (o->replay) return "--replay";
    if (o->slice) return "--slice";
    if (o->project) return "--project";
    return o->dry_run ? "--dry-run" : NULL;
}

/* Returns whether --fields and --rules are the only requests. */
static bool asks_only_tables(const options *o)
{
    return (o->fields || o->rules) && !(o->help || o->version || o->keys || o->list || o->replay);
}

/* Returns why the options contradict each other, or NULL. */
static const char *contradiction(const options *o)
{
    const char *mode = options_serial_mode(o);
    bool on_paper = o->dry_run || o->slice || o->project;
    const struct {
        bool wrong;
        const char *why;
    } rule[] = {
        { o->slice + o->dry_run + o->project > 1, "--dry-run, --project and --slice exclude each other: give one" },
        { o->project && !o->sheet, "--project needs --sheet NAME, as in --sheet dgx-h100" },
        { o->sheet && !o->project && !o->calibrate, "--sheet goes with --project and --calibrate" },
        { o->calibrate && mode, "--calibrate runs alone, on all ranks: give no other mode, and start it with mpirun" },
        { o->slice && o->rank_counts != 1, "--slice needs --ranks N, the case's number of ranks, as in --ranks 512" },
        { (o->stages || o->rank >= 0 || (o->sustained > 0.0 && !o->calibrate)) && !o->slice,
          "--rank and --stages go with --slice, --seconds with --slice and --calibrate" },
        { o->stages && o->rank >= 0, "--stages takes one rank of each stage, --rank names one rank: give one of them" },
        { o->rank_counts && !on_paper,
          "--ranks goes with --dry-run, --project and --slice; mpirun -np sets the ranks of a run" },
        { o->step_seconds > 0.0 && !o->dry_run, "--step-seconds goes with --dry-run; a run measures its steps" },
        { o->strict && on_paper, "--strict goes with a run; a dry run or a slice judges no case" },
        { (o->vary || o->from) && !o->project, "--vary and --from go with --project" },
        { o->timeline && o->calibrate, "--timeline goes with a run or --project: nothing else has times" },
        { o->timeline && mode && !o->project, "--timeline goes with a run or --project: nothing else has times" },
        { o->timeline && o->json && strcmp(o->timeline, o->json) == 0, "--timeline and --json name the same file" },
        { o->timeline && (o->rank_counts > 1 || strcmp(o->timeline, "-") == 0),
          "--timeline takes one count of ranks, and a file other than stdout, which has the report" },
        { o->json && o->project, "--project prints no JSON" },
        { o->json && o->calibrate, "--calibrate prints no JSON" },
        { o->json && mode && !on_paper && !asks_only_tables(o),
          "--json goes with a run, a dry run, a slice, --fields and --rules: nothing else has a JSON form" },
        { o->project && (o->on_host || o->device),
          "--project takes the device of its sheet, and neither --on-host nor --device" },
        { o->on_host && !on_paper,
          "--on-host goes with --dry-run and --slice; for a run write backend = host into the deck" },
        { o->device && !on_paper, "--device goes with --dry-run and --slice; a run finds out the devices" },
        { o->node_ranks && !o->dry_run, "--node-ranks goes with --dry-run; a run finds out its nodes" },
        { o->device_bytes > 0.0 && !o->dry_run, "--device-memory goes with --dry-run; a run finds out the memory" },
        { o->deck && (o->keys || o->list), "--keys and --list take one name or none, and no deck" },
        { o->schedule && !o->dry_run, "--schedule goes with --dry-run; nothing else prints schedules" },
    };
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++)
        if (rule[i].wrong) return rule[i].why;
    return NULL;
}

options options_read(int argc, char **argv)
{
    options o = { .rank = -1 };
    for (int i = 1; i < argc && !o.mistake[0];) i += read_next(&o, argv + i);
    const char *why = o.mistake[0] ? NULL : contradiction(&o);
    if (why) snprintf(o.mistake, sizeof o.mistake, "%s", why);
    o.no_deck = !o.deck && (!options_serial_mode(&o) || o.dry_run || o.slice || o.project);
    if (o.no_deck) o.deck = DEFAULT_DECK;
    if (!o.device) o.device = PAPER_DEVICE;
    if (o.device_bytes == 0.0) o.device_bytes = device_bytes(o.device);
    return o;
}

void options_print_help(void)
{
    say("usage: mpirun -np N ./xgsw [DECK]           run every case of the deck (default: gsw.dat)\n"
        "       ./xgsw --dry-run DECK [--ranks N,N]  layout, parameters, bytes and flops of every case, at N ranks\n"
        "                             [--schedule]   also each pipeline stage's schedule, as lists and a picture\n"
        "                     [--step-seconds X]     also the time of all steps, if one of case 1 takes X seconds\n"
        "                     [--node-ranks N]       on nodes of N ranks (key copies) instead of the device's\n"
        "                     [--device NAME]        for this GPU instead of H100: recipe rows, memory, peaks\n"
        "                     [--device-memory GB]   also whether each rank fits into a device with this memory\n"
        "                     [--on-host]            backend = auto means the host, not a GPU\n"
        "                     [--json FILE]          one JSON object a case: keys, forecast; - prints only JSON\n"
        "       ./xgsw --project DECK --sheet NAME   forecast of step times on a machine of inputs/machines/\n"
        "                     [--ranks N,N]          at N ranks\n"
        "                     [--from RECORD.h5]     takes times from a run's record, the rest from the sheet\n"
        "                     [--vary TERM]          also with this term at its least and greatest value\n"
        "                     [--timeline FILE]      also writes every operation of a step as a trace for Perfetto\n"
        "       mpirun -np N ./xgsw --calibrate DECK  times operations and links of all ranks, names slow ones and\n"
        "                     [--sheet NAME]         writes DECK.sheet for --project; on GPUs NAME has the other "
        "terms\n"
        "                     [--seconds X]          seconds for each operation (default 0.2)\n"
        "       ./xgsw --slice DECK --ranks N        times each operation of rank 0 of N, alone on this machine\n"
        "                     [--rank R | --stages]  of rank R instead, or of one rank of each pipeline stage\n"
        "                     [--seconds X]          seconds for each operation (default 2)\n"
        "                     [--on-host] [--json FILE]  as above; one object for the case, each operation and rank\n"
        "       ./xgsw --keys [NAME | developer]     the deck's keys, one key, or the keys for tests of the program\n"
        "       ./xgsw --fields [--json FILE]        fields of a case in --json and the record: units and meaning\n"
        "       ./xgsw --rules [--json FILE]         what makes a result NOT VALID, as in validation/RULES.md\n"
        "       ./xgsw --list [NAME]                 all workloads or one, with published layouts; known GPUs\n"
        "       ./xgsw --replay FILE                 runs an operation again whose result differed from the host's\n"
        "       ./xgsw --version                     versions of everything it was built with\n"
        "       ./xgsw --help                        this text\n"
        "DECK is searched for as given, then in inputs/ of the current folder, then in inputs/ next to the program.\n"
        "--progress: shows progress as on a terminal, even if the launcher redirects stdout.\n"
        "--json FILE: writes all keys and fields of each case of a run, one object a line; - is stdout.\n"
        "--timeline FILE: writes the last step of each case on rank 0 (its last 16384 operations) as a trace.\n"
        "--strict: a case that is SKIPPED or NOT VALID is a failure.\n"
        "--verbose: the report has all keys and fields of each case.\n"
        "Exit status: 0 all cases PASSED or SKIPPED, 1 a case FAILED or is NOT ACCEPTED, 2 refused, 3 all SKIPPED,\n"
        "75 stopped on request, 86 no progress for stall_seconds, 87 record, report or checkpoint not written.\n");
}
