/* Of other architectures. */
#include "base/kernel_call.h"
#include <unistd.h>

long kernel_call(long number, long first, long second, long third) { return syscall(number, first, second, third); }
