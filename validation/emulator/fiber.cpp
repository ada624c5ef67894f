/* Fibers over boost.context, with the annotations that the address sanitizer needs. */
#include "fiber.h"
#include "inside.h"
#include <boost/context/detail/fcontext.hpp>
#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>

namespace emulator
{

namespace context = boost::context::detail;

enum { PAGE = 4096, STACK = 192 << 10, SLAB = 64, COLOURS = 29, COLOUR_BYTES = 576 };

struct fiber {
    context::fcontext_t resume;
    const void *bottom; /* of the stack */
    size_t bytes;
    void *fake;  /* handle of the sanitizer */
    fiber *next; /* in the list of idle fibers */
};

static fiber own; /* the thread's own stack */
static fiber *now = &own, *idle;
static void (*body)();

void fiber_body(void (*run)()) { body = run; }
fiber *fiber_now() { return now == &own ? NULL : now; }

/* Runs after a switch. The context of the fiber that was left is t.fctx. */
static void arrive(fiber *me, context::transfer_t t)
{
    fiber *left = static_cast<fiber *>(t.data);
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(me->fake, &bottom, &bytes);
    left->resume = t.fctx;
    left->bottom = bottom;
    left->bytes = bytes;
}

void fiber_switch(fiber *to)
{
    fiber *from = now;
    now = to ? to : &own;
    __sanitizer_start_switch_fiber(&from->fake, now->bottom, now->bytes);
    context::transfer_t t = context::jump_fcontext(now->resume, from);
    arrive(from, t);
}

void fiber_rest(fiber *to)
{
    now->next = idle;
    idle = now;
    fiber_switch(to);
}

static void entry(context::transfer_t t)
{
    arrive(now, t);
    for (;;) body();
}

/* Stacks begin at different offsets within a page; otherwise they would use the same cache lines. */
static void slab()
{
    static unsigned made;
    size_t each = PAGE + STACK;
    void *memory = mmap(NULL, each * SLAB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) emulator_fail("no memory for stacks of threads");
    for (unsigned i = 0; i < SLAB; i++) {
        char *guard = static_cast<char *>(memory) + i * each, *bottom = guard + PAGE;
        size_t bytes = STACK - made++ % COLOURS * COLOUR_BYTES;
        mprotect(guard, PAGE, PROT_NONE);
        fiber *f = new fiber{ context::make_fcontext(bottom + bytes, bytes, entry), bottom, bytes, NULL, idle };
        idle = f;
    }
}

fiber *fiber_take()
{
    if (!idle) slab();
    fiber *f = idle;
    idle = f->next;
    return f;
}

} // namespace emulator
