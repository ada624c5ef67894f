/* xgsw: starts the world, reads the deck, runs every case, counts PASSED, FAILED and SKIPPED. */
#include "base/build_info.h"
#include "base/fail.h"
#include "base/interrupt.h"
#include "base/say.h"
#include "bench/calibrate/calibrate.h"
#include "bench/check/replay.h"
#include "bench/facts/fields.h"
#include "bench/facts/rules.h"
#include "bench/launch/deck_file.h"
#include "bench/launch/libraries.h"
#include "bench/launch/options.h"
#include "bench/launch/start_check.h"
#include "bench/paper/dry_run.h"
#include "bench/paper/paper.h"
#include "bench/project/from_record.h"
#include "bench/project/project.h"
#include "bench/project/trace.h"
#include "bench/record/json.h"
#include "bench/record/writer.h"
#include "bench/run/session.h"
#include "bench/slice/slice.h"
#include "machine/op/activity.h"
#include "machine/queue/machine.h"
#include "machine/watch/launcher.h"
#include "machine/watch/watch.h"
#include "machine/world.h"
#include "plan/deck/catalogue_list.h"
#include "plan/keys/keys.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int refuse(const char *sentence)
{
    if (say_enabled()) fprintf(stderr, "%s\n", sentence);
    return STATUS_REFUSED;
}

static int refuse_deck(const deck *d)
{
    for (int i = 0; i < d->messages; i++) refuse(d->message[i].line);
    return STATUS_REFUSED;
}

static int print_version(void)
{
    char text[512];
    say("xgsw commit %s%s, built %s%s\n", build_commit, build_dirty ? " (modified)" : "", build_date,
        build_debug ? ", debug" : "");
    say("compiler   %s\nflags      %s\nMPI        %s\n", build_compiler, build_flags, build_mpi);
    say("HDF5       %s\n", writer_library(text, sizeof text));
    say("products   %s\n", machine_library(MACHINE_HOST, text, sizeof text));
    say("CUDA       %s\n", machine_library(MACHINE_CUDA, text, sizeof text));
    return STATUS_PASSED;
}

/* Lets only the launcher's first process print. Needs no MPI. */
static void print_on_first_only(void)
{
    launch_place here = launch_here();
    if (here.rank >= 0 || here.local_rank >= 0) say_enable((here.rank >= 0 ? here.rank : here.local_rank) == 0);
}

static int print_named(const options *o)
{
    char sentence[512], shown[TEXT_SHOWN_LENGTH], remedy[2 * NAME_LENGTH];
    text_view name = text_of(o->name);
    if (o->keys && !strcmp(o->name, "developer")) return keys_print_developer(), STATUS_PASSED;
    key_id key = o->keys ? key_find(name) : KEYS;
    const workload_row *workload = o->list ? workload_find(name) : NULL;
    if (key != KEYS) key_print(key);
    if (workload) workload_print(workload);
    if (key != KEYS || workload) return STATUS_PASSED;
    text_show(shown, name);
    snprintf(sentence, sizeof sentence, "%s is not a %s; %s", shown, o->keys ? "key" : "workload",
             o->keys ? key_remedy(name, remedy) : workload_remedy(name, remedy));
    return refuse(sentence);
}

/* Answers what needs no ranks and no deck. Only --fields and --rules have a JSON form. */
static int answer(const options *o)
{
    if (o->json && strcmp(o->json, "-") != 0 && say_enabled() && !freopen(o->json, "w", stdout))
        return fprintf(stderr, "cannot write %s: %s\n", o->json, strerror(errno)), STATUS_REFUSED;
    if (o->help) options_print_help();
    if (o->version) print_version();
    if (o->name) return print_named(o);
    if (o->keys) keys_print();
    if (o->fields) fields_print(o->json);
    if (o->rules) rules_print(o->json);
    if (o->list) catalogue_print();
    return o->replay ? replay(o->replay) : STATUS_PASSED;
}

/* A dry run, a projection or a slice of a deck, all without MPI. output: file for JSON or the trace, or NULL. */
typedef struct {
    const options *given;
    deck_file file;
    machine_sheet sheet;
    FILE *output;
} paper_run;

/* With JSON on stdout, a long deck is only checked and not measured, so that scripts can check every deck. */
static int dry_run_deck(const paper_run *p, const deck *d)
{
    char sentence[256];
    bool bounded = dry_run_is_bounded(d, sentence, sizeof sentence);
    if (!bounded && p->output != stdout) return refuse(sentence);
    return dry_run(d, p->given, p->output, bounded) ? STATUS_PASSED : STATUS_FAILED;
}

static int project_all(const paper_run *p, const deck *d)
{
    sheet_term vary = p->given->vary ? term_named(text_of(p->given->vary)) : TERMS;
    return project_deck(d, &p->sheet, vary, p->output) ? STATUS_PASSED : STATUS_FAILED;
}

static int slice_all(const paper_run *p, const deck *d)
{
    char sentence[1024];
    return slice_deck(d, p->given, p->output, sentence, sizeof sentence) ? STATUS_PASSED : refuse(sentence);
}

static int paper_run_at(const paper_run *p, int ranks)
{
    const options *o = p->given;
    deck_source source = { .name = p->file.path,
                           .text = p->file.bytes,
                           .length = p->file.length,
                           .ranks = ranks,
                           .device = p->sheet.device ? p->sheet.device->name : o->device,
                           .device_bytes = o->device_bytes,
                           .rank_bytes = paper_rank_bytes,
                           .dry_run = o->dry_run || o->project,
                           .host_by_option = o->slice && !o->on_host };
    char why[512] = "";
    machine_device device = { .fp8 = true };
    if (o->slice) source.cuda_usable = !o->on_host && machine_usable(MACHINE_CUDA, why, sizeof why);
    if (source.cuda_usable) device = machine_device_of(MACHINE_CUDA), source.device = device.name;
    if (!o->dry_run) source.device_bytes = device_bytes(source.device);
    if (!device.fp8) source.cuda_without_fp8 = "this GPU cannot multiply FP8";
    if (why[0]) source.cuda_missing = why;
    if (o->on_host) source.cuda_missing = "--on-host uses no GPU";
    if (p->sheet.host) source.cuda_missing = "the sheet describes a host";
    const device_row *row = source.cuda_missing ? NULL : device_find(source.device);
    source.node_ranks = o->node_ranks ? o->node_ranks : row ? row->node : 0;
    deck d = deck_read(&source);
    int status = d.messages   ? refuse_deck(&d)
                 : o->slice   ? slice_all(p, &d)
                 : o->project ? project_all(p, &d)
                              : dry_run_deck(p, &d);
    deck_free(&d);
    return status;
}

/* Refused is worse than failed. */
static int worse(int a, int b) { return a > b ? a : b; }

static void refuse_line(void *file, int line, const char *sentence)
{
    char text[1400];
    if (line) snprintf(text, sizeof text, "%s:%d: %s", (const char *)file, line, sentence);
    else snprintf(text, sizeof text, "%s: %s", (const char *)file, sentence);
    refuse(text);
}

/* Reads a sheet from its text and frees the text. Returns whether it is valid. */
static bool parse_sheet(deck_file *f, const char *name, const char *reason, machine_sheet *s)
{
    bool valid = f->bytes && sheet_read(s, name, f->bytes, refuse_line, f->path) == 0;
    if (!f->bytes) refuse(reason);
    free(f->bytes);
    return valid;
}

/* Reads inputs/machines/NAME.sheet, or the file if the name ends in .sheet. all: for all ranks, collective. */
static bool read_sheet(const char *name, machine_sheet *s, bool all)
{
    char path[512], reason[1024];
    const char *dot = strrchr(name, '.');
    bool is_file = dot && strcmp(dot, ".sheet") == 0;
    snprintf(path, sizeof path, is_file ? "%.400s" : "machines/%.400s.sheet", name);
    deck_file f = (all ? deck_file_share : deck_file_read)(path, reason, sizeof reason);
    return parse_sheet(&f, name, reason, s);
}

/* Says in the first line which deck is read, if none was given. */
static void say_deck(const options *o, const deck_file *f)
{
    if (o->no_deck && f->bytes) say("xgsw reads %s, because no deck was given\n", f->path);
}

/* Runs every number of ranks, even if an earlier one failed. */
static int paper_run_all(const options *o)
{
    char reason[1024];
    const char *to = o->project ? o->timeline : o->json;
    paper_run p = { .given = o };
    int status = STATUS_PASSED;
    if (o->sheet && !read_sheet(o->sheet, &p.sheet, false)) return STATUS_REFUSED;
    if (o->from && !sheet_from_record(&p.sheet, o->from, reason, sizeof reason)) return refuse(reason);
    if (o->vary && term_named(text_of(o->vary)) == TERMS)
        return refuse("--vary: give a term of the sheet, as in --vary network");
    p.file = deck_file_read(o->deck, reason, sizeof reason);
    if (!p.file.bytes) return refuse(reason);
    if (to && say_enabled() && !(p.output = json_open(to, p.file.path, reason, sizeof reason))) return refuse(reason);
    if (p.output != stdout) say_deck(o, &p.file);
    if (o->project) trace_begin(p.output);
    for (int i = 0; i < (o->rank_counts ? o->rank_counts : 1); i++)
        status = worse(status, paper_run_at(&p, o->rank_counts ? o->ranks[i] : 1));
    if (o->project) trace_end(p.output);
    json_close(p.output);
    free(p.file.bytes);
    sheet_free(&p.sheet);
    return status;
}

/* Reads the deck as if every rank had a GPU. If a case uses a GPU, or if the deck is refused, reads it again with the
 * devices that the ranks have. A run on the host therefore touches no GPU. */
static deck read_deck(const deck_file *f, device_survey *devices)
{
    deck_source source = {
        .name = f->path, .text = f->bytes, .length = f->length, .ranks = world_ranks(), .cuda_usable = true
    };
    source.node_ranks = world_node_ranks();
    world_broadcast(&source.node_ranks, sizeof source.node_ranks, 0);
    deck d = deck_read(&source);
    if (!d.messages && !deck_on_cuda(&d)) return d;
    deck_free(&d);
    *devices = devices_survey(MACHINE_CUDA);
    source.device = devices->name;
    source.device_bytes = devices->memory_bytes;
    source.rank_bytes = paper_rank_bytes;
    source.cuda_usable = devices->usable;
    source.cuda_missing = devices->missing;
    source.cuda_shared = devices->shared[0] ? devices->shared : NULL;
    source.cuda_without_fp8 = devices->no_fp8[0] ? devices->no_fp8 : NULL;
    source.cuda_without_links = devices->no_links[0] ? devices->no_links : NULL;
    return deck_read(&source);
}

/* The process before MPI starts, which loads more libraries, depending on the node. */
typedef struct {
    int argc;
    char **argv;
    library_list libraries;
} process;

/* Under a launcher only the option counts, because output to a terminal may end in the launcher's files. */
static bool shows_progress(const options *o)
{
    launch_place here = launch_here();
    return o->progress || (here.rank < 0 && here.local_rank < 0 && isatty(STDOUT_FILENO));
}

/* Writes NAME of the deck PATH/NAME.dat, for files in the current folder. */
static void stem_of(const char *path, char *name, size_t length)
{
    const char *slash = strrchr(path, '/');
    snprintf(name, length, "%.200s", slash ? slash + 1 : path);
    size_t end = strlen(name);
    if (end > 4 && strcmp(name + end - 4, ".dat") == 0) name[end - 4] = 0;
}

static const char *calibration_mistake(const deck *d, const options *o)
{
    if (deck_on_cuda(d) && !o->sheet) return "--calibrate on GPUs needs --sheet NAME, as in --sheet dgx-h100";
    return o->sheet && !deck_on_cuda(d) ? "--calibrate on a host takes no --sheet: it measures everything" : NULL;
}

static int calibrate_deck(const deck *d, const deck_file *f, const options *o, const device_survey *devices)
{
    static const double usual_seconds = 0.2;
    char why[1024] = "", name[256];
    machine_sheet base;
    stem_of(f->path, name, sizeof name);
    calibration c = { .deck = d, .name = name, .seconds = o->sustained > 0.0 ? o->sustained : usual_seconds };
    const char *mistake = calibration_mistake(d, o);
    if (mistake) return refuse(mistake);
    if (o->sheet && !read_sheet(o->sheet, &base, true)) return STATUS_REFUSED;
    if (o->sheet) c.base = &base;
    const device_row *own = device_find(devices->name); /* NULL: an unknown device, which any sheet may describe */
    bool matches = !o->sheet || (base.device && (!own || own == base.device));
    machine_share_devices(devices->sharing > 1);
    int status =
        matches ? calibrate(&c, why, sizeof why) : refuse("--sheet: the sheet describes another device than this one");
    if (why[0]) refuse(why);
    if (c.base) sheet_free(&base);
    return status;
}

static int run_deck(const deck_file *f, const options *o, const process *p)
{
    session s = { .run = { .argc = p->argc,
                           .argv = p->argv,
                           .libraries = &p->libraries,
                           .deck_name = f->path,
                           .deck_text = f->bytes,
                           .deck_length = f->length,
                           .terminal = shows_progress(o),
                           .json = o->json,
                           .timeline = o->timeline,
                           .strict = o->strict,
                           .verbose = o->verbose } };
    deck d = read_deck(f, &s.devices);
    machine_sheet sheet = { .host = false };
    bool gpus_refused = !d.messages && deck_on_cuda(&d) && s.devices.refused[0];
    bool uses_sheet = !d.messages && !gpus_refused && !o->calibrate && strcmp(d.item[0].sheet, "none") != 0;
    if (uses_sheet) s.sheet = &sheet;
    int status = d.messages                                                 ? refuse_deck(&d)
                 : gpus_refused                                             ? refuse(s.devices.refused)
                 : o->calibrate                                             ? calibrate_deck(&d, f, o, &s.devices)
                 : uses_sheet && !read_sheet(d.item[0].sheet, &sheet, true) ? STATUS_REFUSED
                                                                            : session_run(&s, &d);
    sheet_free(&sheet);
    free(s.devices.device);
    deck_free(&d);
    return status;
}

enum { MOST_THREADS = 1024 };

static int run(const options *o, const process *p)
{
    char reason[START_SENTENCE] = "";
    if (start_programs_differ(p->argc, p->argv, reason)) return refuse(reason);
    if (o->mistake[0]) return refuse(o->mistake);
    if (machine_threads(MACHINE_HOST) > MOST_THREADS) {
        snprintf(reason, sizeof reason, "xgsw: OMP_NUM_THREADS asks for %d threads a rank; at most %d",
                 machine_threads(MACHINE_HOST), MOST_THREADS);
        return refuse(reason);
    }
    activity_doing("reading the deck", -1);
    deck_file f = deck_file_share(o->deck, reason, sizeof reason);
    say_deck(o, &f);
    int status = f.bytes ? run_deck(&f, o, p) : refuse(reason);
    free(f.bytes);
    return status;
}

/* Reports output that could not be written. Success becomes a failure, because the verdict may be lost. */
static int report_lost_output(int status) { return say_lost() && status == STATUS_PASSED ? STATUS_RECORD : status; }

int main(int argc, char **argv)
{
    machine_environment();
    options o = options_read(argc, argv);
    print_on_first_only();
    const char *request = o.mistake[0] ? NULL : options_serial_mode(&o);
    if (request) watch_leave(request);
    if (request) return report_lost_output(o.dry_run || o.slice || o.project ? paper_run_all(&o) : answer(&o));
    char reason[START_SENTENCE];
    if (start_lacks_pmi(reason)) return report_lost_output(refuse(reason));
    process p = { argc, argv, libraries_loaded() };
    if (!o.calibrate) interrupt_install(); /* a signal may end a calibration at once */
    world_start(&argc, &argv);
    bool unconnected = start_is_split(reason);
    if (unconnected) print_on_first_only();
    int status = unconnected ? refuse(reason) : run(&o, &p);
    world_stop();
    libraries_free(&p.libraries);
    return report_lost_output(status);
}
