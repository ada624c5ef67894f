/* Fibers: separate stacks that take turns in one operating system thread (boost.context), with support for the address
 * sanitizer. */
#pragma once

namespace emulator
{

struct fiber;
/* Sets the function that every fiber runs repeatedly. It must end by calling fiber_rest. */
void fiber_body(void (*body)());
/* Returns an idle fiber. It starts with body() when it is resumed. */
fiber *fiber_take();
/* Returns the running fiber, or NULL on the thread's own stack. */
fiber *fiber_now();
/* Suspends the running fiber (or the thread's own stack) and resumes another; NULL is the thread's own stack. */
void fiber_switch(fiber *to);
/* The same for a finished fiber: it becomes idle, and the call returns when it is taken and resumed. */
void fiber_rest(fiber *to);

} // namespace emulator
