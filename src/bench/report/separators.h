/* The line between parts of the report, as wide as HPL's. */
#pragma once

#define THICK_LINE "================================================================================\n"
