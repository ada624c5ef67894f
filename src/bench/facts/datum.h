/* One value of any kind. */
#pragma once
#include <stdint.h>

typedef enum { VALUE_REAL, VALUE_INTEGER, VALUE_FLAG, VALUE_TEXT } value_kind;
typedef struct {
    value_kind kind;
    double real;
    int64_t integer; /* also for flags */
    const char *text;
} datum;

static inline datum datum_real(double x) { return (datum){ VALUE_REAL, .real = x }; }
static inline datum datum_integer(int64_t n) { return (datum){ VALUE_INTEGER, .integer = n }; }
static inline datum datum_flag(int yes) { return (datum){ VALUE_FLAG, .integer = yes }; }
static inline datum datum_text(const char *text) { return (datum){ VALUE_TEXT, .text = text }; }
