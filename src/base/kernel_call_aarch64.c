/* Of 64-bit ARM: number in x8, arguments in x0, x1, x2, result in x0. */
#include "base/kernel_call.h"

long kernel_call(long number, long first, long second, long third)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = first;
    register long x1 __asm__("x1") = second;
    register long x2 __asm__("x2") = third;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory", "cc");
    return x0;
}
