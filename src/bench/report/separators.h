/* The line between parts of the report, as wide as in HPL. */
#pragma once

#define THICK_LINE "================================================================================\n"
