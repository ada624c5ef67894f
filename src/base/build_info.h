/* Source and tools of this binary. The Makefile writes the values into build/.../build_info.c. */
#pragma once

extern const char build_commit[];   /* 40 hex digits, or "unknown" outside a git checkout */
extern const int build_dirty;       /* 1: src/ or the Makefile differed from that commit */
extern const int build_debug;       /* 1: built with sanitizers and poison */
extern const char build_flags[];    /* flags of the compiler */
extern const char build_needs[];    /* processor features that it may use, named as in /proc/cpuinfo */
extern const char build_compiler[]; /* first line of the compiler's description of itself */
extern const char build_mpi[];      /* MPI library and its compiler wrapper */
extern const char build_date[];     /* ISO 8601, UTC */
