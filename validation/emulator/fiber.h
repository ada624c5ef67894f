/* Fibers: stacks of their own that take turns in one operating system thread (boost.context), known to the address
 * sanitizer. */
#pragma once

namespace emulator
{

struct fiber;
/* What every fiber runs, again and again: body(), which ends by calling fiber_rest. */
void fiber_body(void (*body)());
/* An idle fiber, which begins with body() when it is resumed. */
fiber *fiber_take();
/* The running fiber; NULL on the thread's own stack. */
fiber *fiber_now();
/* Suspends the running one (fiber or the thread's own stack) and resumes another; NULL is the thread's own stack. */
void fiber_switch(fiber *to);
/* The same for a fiber that is done: it is idle from now on, and returns when it was taken and resumed. */
void fiber_rest(fiber *to);

} // namespace emulator
