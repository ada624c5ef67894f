/* Runs a grid: a few blocks at a time, and the threads of a block in random order between barriers. A fiber runs
 * threads until one waits at a barrier, and then stays with that thread; kernels without barriers therefore switch no
 * stacks. Warps are drawn at random. The drawn warp usually continues while its lanes can run, also across shuffles. */
#include "block.h"
#include <cstdio>
#include <cstring>
#include <vector>

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator
{

enum { MOST_BLOCKS = 4, SHARED_ALIGNMENT = 128 };

static const emulator_launch_plan *plan;
static uint64_t blocks, begun, stride, next_block;
static int live_blocks;
static std::vector<warp *> live;   /* warps with ready lanes */
static std::vector<block *> spare; /* blocks of earlier grids */
warp *here;
int lane_here;
uintptr_t shared_begin;
size_t shared_bytes;

void block_describe(char *text, size_t length, const block *b, int thread)
{
    snprintf(text, length, "kernel %s, block %u %u %u, thread %d", plan->name, b->index.x, b->index.y, b->index.z,
             thread);
}

static void make_ready(warp *w, int lane)
{
    if (w->ready == 0) live.push_back(w);
    w->lane[w->ready++] = uint8_t(lane);
}

static void all_ready_but(warp *w, int lane)
{
    for (int i = 0; i < LANES; i++)
        if (i != lane) make_ready(w, i);
}

/* --- Choosing
 * ------------------------------------------------------------------------------------------------------------- */

/* Makes the next thread to run the current one. Returns false if none is ready. */
static bool choose()
{
    if (live.empty()) return false;
    size_t at = live.size() - 1;
    if (!here || here->ready == 0 || live[at] != here || draw(8) == 0) {
        at = draw(unsigned(live.size()));
        std::swap(live[at], live.back());
    }
    here = live.back();
    unsigned i = draw(unsigned(here->ready));
    lane_here = here->lane[i];
    here->lane[i] = here->lane[--here->ready];
    if (here->ready == 0) live.pop_back();
    threadIdx.x = unsigned(thread_here());
    blockIdx = here->home->index;
    shared_begin = reinterpret_cast<uintptr_t>(here->home->shared);
    return true;
}

/* Switches to another thread. Returns when this thread is chosen again. */
static void suspend()
{
    warp *w = here;
    int lane = lane_here;
    w->suspended[lane] = fiber_now();
    if (!choose()) emulator_fail("kernel %s: its threads wait for each other", plan->name);
    fiber *to = here->suspended[lane_here];
    if (to != w->suspended[lane]) fiber_switch(to ? to : fiber_take());
}

/* --- Blocks
 * --------------------------------------------------------------------------------------------------------------- */

static block *block_open(int warps)
{
    block *b = spare.empty() ? new block{} : spare.back();
    if (!spare.empty()) spare.pop_back();
    for (int i = 0; i < warps; i++)
        if (!b->warp_of[i]) b->warp_of[i] = new warp{};
    b->warps = warps;
    b->shared = NULL;
    if (plan->shared > 0) b->shared = new (std::align_val_t(SHARED_ALIGNMENT)) unsigned char[plan->shared];
    b->history = new touched[plan->shared / 2 + 1]();
    return b;
}

static void block_close(block *b)
{
    delete[] b->history;
    if (b->shared) operator delete[](b->shared, std::align_val_t(SHARED_ALIGNMENT));
    spare.push_back(b);
}

/* Starts blocks in a scattered order: every stride-th, where the stride and the number of blocks are coprime. */
static void block_begin(block *b)
{
    uint64_t at = next_block;
    next_block = (next_block + stride) % blocks;
    begun++;
    b->index = uint3{ unsigned(at % plan->grid.x), unsigned(at / plan->grid.x % plan->grid.y),
                      unsigned(at / plan->grid.x / plan->grid.y) };
    b->waiting = b->gone = 0;
    b->epoch++;
    if (b->shared) memset(b->shared, 0xFF, plan->shared);
    for (int i = 0; i < b->warps; i++) {
        warp *w = b->warp_of[i];
        w->home = b;
        w->first = i * LANES;
        w->ready = w->waiting = w->at_block_barrier = w->gone = 0;
        memset(w->suspended, 0, sizeof w->suspended);
        all_ready_but(w, -1);
    }
}

/* --- A thread's end
 * ------------------------------------------------------------------------------------------------------- */

static void thread_gone()
{
    char who[160];
    block *b = here->home;
    here->gone++;
    if (b->waiting > 0 || here->waiting > 0) {
        const emulator_site &s = here->waiting > 0 ? here->site : b->site;
        block_describe(who, sizeof who, b, thread_here());
        emulator_fail("%s leaves the kernel while others wait at %s (%s:%d)", who, s.what, s.file, s.line);
    }
    if (++b->gone < b->warps * LANES) return;
    if (begun < blocks) block_begin(b);
    else {
        block_close(b);
        live_blocks--;
    }
}

/* Body of a fiber: runs new threads until a thread is chosen that already has a fiber. */
static void run_threads()
{
    for (;;) {
        plan->call(plan->arguments);
        thread_gone();
        if (!choose()) {
            if (live_blocks > 0) emulator_fail("kernel %s: its threads wait for each other", plan->name);
            here = NULL;
            return fiber_rest(NULL);
        }
        if (fiber *to = here->suspended[lane_here]) return fiber_rest(to);
    }
}

static uint64_t common_divisor(uint64_t a, uint64_t b) { return b == 0 ? a : common_divisor(b, a % b); }

void grid_run(const emulator_launch_plan &given)
{
    plan = &given;
    blockDim = plan->block;
    gridDim = plan->grid;
    blocks = uint64_t(plan->grid.x) * plan->grid.y * plan->grid.z;
    begun = 0;
    next_block = draw(unsigned(blocks < 1u << 31 ? blocks : 1u << 31));
    do stride = 1 + draw(unsigned(blocks < 1000000 ? blocks : 1000000));
    while (common_divisor(stride, blocks) != 1);
    threadIdx = uint3{ 0, 0, 0 };
    for (unsigned wanted = 2 + draw(MOST_BLOCKS - 1); begun < blocks && live_blocks < int(wanted); live_blocks++)
        block_begin(block_open(int(plan->block.x) / LANES));
    fiber_body(run_threads);
    here = NULL;
    choose();
    shared_bytes = plan->shared;
    fiber_switch(fiber_take());
    shared_bytes = 0;
}

/* --- Barriers
 * ------------------------------------------------------------------------------------------------------------- */

static bool same_site(const emulator_site &a, const emulator_site &b)
{
    if (a.line != b.line) return false;
    return (a.what == b.what || strcmp(a.what, b.what) == 0) && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

__attribute__((noreturn)) static void alone(const emulator_site &mine, const char *others)
{
    char who[160];
    block_describe(who, sizeof who, here->home, thread_here());
    emulator_fail("%s waits at %s (%s:%d), but others %s", who, mine.what, mine.file, mine.line, others);
}

__attribute__((noreturn)) static void elsewhere(const emulator_site &mine, const emulator_site &theirs)
{
    char others[300];
    snprintf(others, sizeof others, "wait at %s (%s:%d)", theirs.what, theirs.file, theirs.line);
    alone(mine, others);
}

/* Most copies have 4 bytes, and a few words are not worth a function call. */
static inline void copy(void *to, const void *from, size_t bytes)
{
    if (bytes == 4) memcpy(to, from, 4);
    else if (bytes % 8 == 0)
        for (size_t i = 0; i < bytes; i += 8)
            memcpy(static_cast<char *>(to) + i, static_cast<const char *>(from) + i, 8);
    else memcpy(to, from, bytes);
}

/* Waits for the 32 lanes. The last lane calls combine and continues. */
static unsigned char *meet(const void *mine, size_t bytes, void (*combine)(void *), const emulator_site &site)
{
    warp *w = here;
    unsigned char *slots = w->slots[w->round / 2 % 2][0];
    if (w->gone > 0) alone(site, "of its warp have left the kernel");
    if (w->at_block_barrier > 0) elsewhere(site, w->home->site);
    if (w->waiting > 0 && (!same_site(w->site, site) || w->bytes != bytes)) elsewhere(site, w->site);
    if (bytes > EMULATOR_LANE_BYTES) alone(site, "cannot take so many bytes");
    unsigned char *slot = slots + size_t(lane_here) * bytes;
    copy(slot, mine, bytes);
    w->site = site;
    w->bytes = bytes;
    if (++w->waiting < LANES) {
        suspend();
        return slots;
    }
    w->waiting = 0;
    w->round++;
    if (combine) combine(slots);
    w->round++;
    all_ready_but(w, lane_here);
    return slots;
}

} // namespace emulator

using namespace emulator;

const void *emulator_warp_gather(const void *mine, size_t bytes, emulator_site site)
{
    return meet(mine, bytes, NULL, site);
}
void emulator_warp_barrier(emulator_site site) { meet(NULL, 0, NULL, site); }

void emulator_warp_exchange(const void *mine, size_t bytes, void *all, emulator_site site)
{
    copy(all, meet(mine, bytes, NULL, site), bytes * LANES);
}

void emulator_warp_combine(void *mine, size_t bytes, void (*combine)(void *), emulator_site site)
{
    const unsigned char *slots = meet(mine, bytes, combine, site);
    copy(mine, slots + size_t(lane_here) * bytes, bytes);
}

void emulator_block_barrier(emulator_site site)
{
    block *b = here->home;
    if (b->gone > 0) alone(site, "of its block have left the kernel");
    if (here->waiting > 0) elsewhere(site, here->site);
    if (b->waiting > 0 && !same_site(b->site, site)) elsewhere(site, b->site);
    b->site = site;
    here->at_block_barrier++;
    if (++b->waiting < b->warps * LANES) return suspend();
    b->waiting = 0;
    b->epoch++;
    for (int i = 0; i < b->warps; i++) {
        b->warp_of[i]->at_block_barrier = 0;
        all_ready_but(b->warp_of[i], b->warp_of[i] == here ? lane_here : -1);
    }
}

void *emulator_shared(size_t bytes, const char *name)
{
    if (bytes > plan->shared)
        emulator_fail("kernel %s: %s is %zu bytes of shared memory, the launch gave %zu", plan->name, name, bytes,
                      plan->shared);
    return here->home->shared;
}
