/* Lines between the parts of the report, as wide as HPL's. */
#pragma once

#define THICK_LINE "================================================================================\n"
#define THIN_LINE "--------------------------------------------------------------------------------\n"
