/* Of x86-64: number and result in rax, arguments in rdi, rsi, rdx; the instruction overwrites rcx and r11. */
#include "base/kernel_call.h"

long kernel_call(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(first), "S"(second), "d"(third)
                     : "rcx", "r11", "memory");
    return result;
}
