/* Main and sampling thread send commands of one byte through sockets: poll ignores changes of the system time. */
#include "machine/sample/sampler.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

const double SAMPLE_SECONDS = 1.0;

/* The sampling thread sends DONE, the main thread all others. */
enum { BEGIN = 'b', END = 'e', CLOSE = 'c', DONE = 'd', ANSWER_MILLISECONDS = 2000 };

struct sampler {
    sample_subject subject;
    node_meter node;
    pthread_t thread;
    int main_end, thread_end;
    bool stuck;
    double began, cost_seconds;
    machine_sample first; /* with the counters as read */
    machine_sample kept[SAMPLES_KEPT];
    int64_t kept_count, taken_count, stride; /* every stride-th sample is kept, and the last */
    char throttled[96];
    double throttled_at;
};

static double processor_seconds(clockid_t of)
{
    struct timespec t = { 0, 0 };
    clock_gettime(of, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a sample ---- */

static void read_device(sampler *s, machine_sample *to)
{
    device_state d = { NAN, NAN, NAN, NAN, .events = -1 };
    if (s->subject.device) s->subject.device(&d);
    to->clock_hertz = d.clock_hertz, to->temperature = d.temperature;
    to->power_watts = d.power_watts, to->device_joules = d.joules;
    to->events = d.events;
    to->clock_least = to->clock_most = d.clock_hertz, to->temperature_most = d.temperature;
    to->power_least = to->power_most = d.power_watts;
    if (!d.throttled || s->throttled[0]) return;
    memcpy(s->throttled, d.reasons, sizeof s->throttled);
    s->throttled_at = to->seconds;
}

static void read_node(sampler *s, machine_sample *to)
{
    node_state n = { NAN, NAN, NAN, NAN };
    if (s->subject.cores) n = node_read(&s->node);
    to->core_hertz = n.core_hertz, to->load = n.load;
    to->busy_seconds = n.busy_seconds, to->package_joules = n.joules;
}

static void count_from_first(const machine_sample *first, machine_sample *x)
{
    x->device_joules -= first->device_joules;
    x->package_joules -= first->package_joules;
    x->busy_seconds -= first->busy_seconds;
    x->own_seconds -= first->own_seconds;
}

/* Adds events and extremes of a dropped sample to the kept sample before it. */
static void add_dropped(machine_sample *to, const machine_sample *x)
{
    if (x->events >= 0) to->events = (to->events < 0 ? 0 : to->events) | x->events;
    to->clock_least = fmin(to->clock_least, x->clock_least), to->clock_most = fmax(to->clock_most, x->clock_most);
    to->power_least = fmin(to->power_least, x->power_least), to->power_most = fmax(to->power_most, x->power_most);
    to->temperature_most = fmax(to->temperature_most, x->temperature_most);
}

static void thin_out(sampler *s)
{
    for (int64_t i = 0; i < SAMPLES_KEPT / 2; i++) {
        s->kept[i] = s->kept[2 * i];
        add_dropped(&s->kept[i], &s->kept[2 * i + 1]);
    }
    s->kept_count = SAMPLES_KEPT / 2;
    s->stride *= 2;
}

static void keep_sample(sampler *s, const machine_sample *x, bool last)
{
    bool due = last || s->taken_count++ % s->stride == 0;
    if (due && s->kept_count == SAMPLES_KEPT) thin_out(s);
    if (due) s->kept[s->kept_count++] = *x;
    else add_dropped(&s->kept[s->kept_count - 1], x);
}

static void take_sample(sampler *s, bool last)
{
    double begin = processor_seconds(CLOCK_THREAD_CPUTIME_ID);
    machine_sample now = { .seconds = clock_seconds() - s->began };
    now.own_seconds = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
    read_device(s, &now);
    read_node(s, &now);
    if (s->kept_count == 0) s->first = now;
    count_from_first(&s->first, &now);
    keep_sample(s, &now, last);
    s->cost_seconds += processor_seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
}

/* ---- the thread ---- */

static void reset(sampler *s)
{
    s->kept_count = s->taken_count = 0;
    s->stride = 1;
    s->began = clock_seconds();
    s->cost_seconds = s->throttled_at = 0.0;
    s->throttled[0] = 0;
}

/* Returns the next command, or 0 after `milliseconds` (-1: waits without limit). */
static char receive_command(int end, int milliseconds)
{
    struct pollfd p = { .fd = end, .events = POLLIN };
    char command = 0;
    int ready;
    do ready = poll(&p, 1, milliseconds);
    while (ready < 0 && errno == EINTR);
    if (ready > 0 && read(end, &command, 1) != 1) command = CLOSE;
    return command;
}

static void send_command(int end, char command)
{
    if (write(end, &command, 1) != 1) FAIL("cannot write to the sampling thread");
}

static void *run_thread(void *of)
{
    sampler *s = of;
    bool is_sampling = false;
    for (char command = 0; command != CLOSE;) {
        command = receive_command(s->thread_end, is_sampling ? (int)(1e3 * s->subject.every) : -1);
        if (command == BEGIN) reset(s);
        if (command == BEGIN) is_sampling = true;
        if (is_sampling) take_sample(s, command == END);
        if (command == END) is_sampling = false;
        if (command == END) send_command(s->thread_end, DONE);
    }
    return NULL;
}

/* The thread blocks all signals: the main thread handles them. */
static void start_thread(sampler *s)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&s->thread, NULL, run_thread, s)) FAIL("cannot start the sampling thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

sampler *sampler_open(const sample_subject *of)
{
    int end[2];
    sampler *s = allocate(1, sizeof *s, "the sampler");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end)) FAIL("no sockets for the sampler");
    s->subject = *of;
    s->main_end = end[0], s->thread_end = end[1];
    node_open(&s->node, "/proc", "/sys");
    for (int i = 0; i < of->cores; i++) node_add_core(&s->node, of->core(i));
    start_thread(s);
    return s;
}

void sampler_begin(sampler *s) { send_command(s->main_end, BEGIN); }
void sampler_end(sampler *s) { send_command(s->main_end, END); }

sample_report sampler_read(sampler *s)
{
    s->stuck = receive_command(s->main_end, ANSWER_MILLISECONDS) != DONE;
    if (s->stuck) return (sample_report){ .throttled = "", .lost = true };
    return (sample_report){ .list = s->kept,
                            .count = s->kept_count,
                            .every = s->subject.every * (double)s->stride,
                            .began = s->began,
                            .cost_seconds = s->cost_seconds,
                            .throttled = s->throttled,
                            .throttled_at = s->throttled_at };
}

/* If the thread hangs in the driver, its memory is not freed. */
void sampler_close(sampler *s)
{
    if (s->stuck) return;
    send_command(s->main_end, CLOSE);
    pthread_join(s->thread, NULL);
    close(s->main_end);
    close(s->thread_end);
    free(s);
}
