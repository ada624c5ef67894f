/* What this binary was built from and with. The Makefile writes the values into build/.../build_info.c. */
#pragma once

extern const char build_commit[];   /* 40 hex digits, or "unknown" outside a git checkout */
extern const int build_dirty;       /* 1: src/ or the Makefile differed from that commit */
extern const int build_debug;       /* 1: built with sanitizers and poison */
extern const char build_flags[];    /* the compiler's flags */
extern const char build_needs[];    /* features of processors that it may use, by the names of /proc/cpuinfo */
extern const char build_compiler[]; /* the compiler's first line about itself */
extern const char build_mpi[];      /* the MPI library and its compiler wrapper */
extern const char build_date[];     /* ISO 8601, UTC */
