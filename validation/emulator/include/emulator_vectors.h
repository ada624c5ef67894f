/* CUDA's small vector types, for C and C++. */
#pragma once
#include <stdint.h>

#define EMULATOR_VECTORS(type, name, alignment2, alignment4)                                                           \
    struct name##1 { type x; };                                                                                        \
    typedef struct name##1 name##1;                                                                                    \
    struct name##2 { type x, y; }                                                                                      \
    __attribute__((aligned(alignment2)));                                                                              \
    typedef struct name##2 name##2;                                                                                    \
    struct name##3 { type x, y, z; };                                                                                  \
    typedef struct name##3 name##3;                                                                                    \
    struct name##4 { type x, y, z, w; }                                                                                \
    __attribute__((aligned(alignment4)));                                                                              \
    typedef struct name##4 name##4;

EMULATOR_VECTORS(char, char, 2, 4)
EMULATOR_VECTORS(unsigned char, uchar, 2, 4)
EMULATOR_VECTORS(short, short, 4, 8)
EMULATOR_VECTORS(unsigned short, ushort, 4, 8)
EMULATOR_VECTORS(int, int, 8, 16)
EMULATOR_VECTORS(unsigned, uint, 8, 16)
EMULATOR_VECTORS(long long, longlong, 16, 16)
EMULATOR_VECTORS(unsigned long long, ulonglong, 16, 16)
EMULATOR_VECTORS(float, float, 8, 16)
EMULATOR_VECTORS(double, double, 16, 16)

#ifdef __cplusplus
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#define EMULATOR_MAKE(type, name)                                                                                      \
    static inline name##2 make_##name##2(type x, type y) { return name##2 { x, y }; }                                  \
    static inline name##3 make_##name##3(type x, type y, type z) { return name##3 { x, y, z }; }                       \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return name##4 { x, y, z, w }; }
EMULATOR_MAKE(char, char)
EMULATOR_MAKE(unsigned char, uchar)
EMULATOR_MAKE(short, short)
EMULATOR_MAKE(unsigned short, ushort)
EMULATOR_MAKE(int, int)
EMULATOR_MAKE(unsigned, uint)
EMULATOR_MAKE(long long, longlong)
EMULATOR_MAKE(unsigned long long, ulonglong)
EMULATOR_MAKE(float, float)
EMULATOR_MAKE(double, double)
#else
typedef struct dim3 {
    unsigned x, y, z;
} dim3;
#endif
