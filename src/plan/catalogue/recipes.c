/* The recipes' cells: layout and batch of each workload by number of GPUs, from the recipe that the workload names. */
#include "plan/catalogue/catalogue.h"
#include "plan/catalogue/devices.h"
#include <string.h>

#define LAYOUT(t, p, c, e, d, s, chunks)                                                                               \
    .tensor = t, .pipeline = p, .context = c, .expert = e, .data = d, .shard = s, .chunks_per_stage = chunks
#define BATCH(micro, global) .microbatch = micro, .global_batch = global
#define STEP(seconds) .step_seconds = seconds

static const recipe_row rows[] = {
    { "llama2-70b", PRECISION_BF16, 64, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 64, 1), BATCH(2, 128), STEP(6.999) },
    { "llama2-70b", PRECISION_BF16, 128, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 128, 1), BATCH(2, 256), STEP(7.072) },
    { "llama2-70b", PRECISION_BF16, 256, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 256, 1), BATCH(2, 512), STEP(7.153) },
    { "llama2-70b", PRECISION_BF16, 512, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 4, 128, 1), BATCH(2, 1024), STEP(7.091) },
    { "llama2-70b", PRECISION_BF16, 1024, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 8, 128, 1), BATCH(2, 2048),
      STEP(7.084) },
    { "llama2-70b", PRECISION_BF16, 2048, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 16, 128, 1), BATCH(2, 4096),
      STEP(7.066) },
    { "llama2-70b", PRECISION_FP8, 64, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 64, 1), BATCH(2, 128), STEP(4.324) },
    { "llama2-70b", PRECISION_FP8, 128, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 128, 1), BATCH(2, 256), STEP(4.556) },
    { "llama2-70b", PRECISION_FP8, 256, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 256, 1), BATCH(2, 512), STEP(4.959) },
    { "llama2-70b", PRECISION_FP8, 512, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 4, 128, 1), BATCH(2, 1024), STEP(5.043) },
    { "llama2-70b", PRECISION_FP8, 1024, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 8, 128, 1), BATCH(2, 2048), STEP(5.062) },
    { "llama2-70b", PRECISION_FP8, 2048, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 16, 128, 1), BATCH(2, 4096), STEP(4.93) },
    { "llama3.1-8b", PRECISION_BF16, 8, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 4, 1, 1), BATCH(1, 128), STEP(12.27) },
    { "llama3.1-8b", PRECISION_BF16, 16, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 8, 1, 1), BATCH(1, 256), STEP(12.3) },
    { "llama3.1-8b", PRECISION_BF16, 32, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 16, 1, 1), BATCH(1, 512), STEP(12.32) },
    { "llama3.1-8b", PRECISION_BF16, 64, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 32, 1, 1), BATCH(1, 1024), STEP(12.33) },
    { "llama3.1-8b", PRECISION_BF16, 128, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 64, 1, 1), BATCH(1, 2048), STEP(12.33) },
    { "llama3.1-8b", PRECISION_FP8, 8, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 4, 1, 1), BATCH(1, 128), STEP(9.33) },
    { "llama3.1-8b", PRECISION_FP8, 16, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 8, 1, 1), BATCH(1, 256), STEP(9.36) },
    { "llama3.1-8b", PRECISION_FP8, 32, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 16, 1, 1), BATCH(1, 512), STEP(9.43) },
    { "llama3.1-8b", PRECISION_FP8, 64, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 32, 1, 1), BATCH(1, 1024), STEP(9.48) },
    { "llama3.1-8b", PRECISION_FP8, 128, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 64, 1, 1), BATCH(1, 2048), STEP(9.54) },
    { "llama3.1-70b", PRECISION_BF16, 64, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 2, 1, 5), BATCH(1, 128), STEP(14.66) },
    { "llama3.1-70b", PRECISION_BF16, 128, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 4, 1, 5), BATCH(1, 256), STEP(14.67) },
    { "llama3.1-70b", PRECISION_BF16, 256, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 8, 1, 5), BATCH(1, 512), STEP(14.68) },
    { "llama3.1-70b", PRECISION_BF16, 512, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 16, 1, 5), BATCH(1, 1024),
      STEP(14.67) },
    { "llama3.1-70b", PRECISION_BF16, 1024, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 32, 1, 5), BATCH(1, 2048),
      STEP(14.65) },
    { "llama3.1-70b", PRECISION_BF16, 2048, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 64, 1, 5), BATCH(1, 4096),
      STEP(14.66) },
    { "llama3.1-70b", PRECISION_FP8, 64, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 2, 1, 5), BATCH(1, 128), STEP(9.86) },
    { "llama3.1-70b", PRECISION_FP8, 128, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 4, 1, 5), BATCH(1, 256), STEP(9.95) },
    { "llama3.1-70b", PRECISION_FP8, 256, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 8, 1, 5), BATCH(1, 512), STEP(10) },
    { "llama3.1-70b", PRECISION_FP8, 512, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 16, 1, 5), BATCH(1, 1024), STEP(10.07) },
    { "llama3.1-70b", PRECISION_FP8, 1024, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 32, 1, 5), BATCH(1, 2048),
      STEP(10.08) },
    { "llama3.1-70b", PRECISION_FP8, 2048, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 64, 1, 5), BATCH(1, 4096),
      STEP(10.15) },
    { "llama3.1-405b", PRECISION_BF16, 32, "H100", 8192, 8, LAYOUT(8, 1, 2, 1, 2, 1, 1), BATCH(1, 64), STEP(5.4) },
    { "llama3.1-405b", PRECISION_BF16, 64, "H100", 8192, 30, LAYOUT(8, 4, 2, 1, 1, 1, 8), BATCH(1, 64), STEP(10.1) },
    { "llama3.1-405b", PRECISION_BF16, 128, "H100", 8192, 62, LAYOUT(8, 4, 2, 1, 2, 1, 8), BATCH(1, 128), STEP(19.62) },
    { "llama3.1-405b", PRECISION_BF16, 512, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 4, 1, 8), BATCH(1, 256),
      STEP(19.78) },
    { "llama3.1-405b", PRECISION_BF16, 1024, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 8, 1, 8), BATCH(1, 512),
      STEP(19.84) },
    { "llama3.1-405b", PRECISION_BF16, 2048, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 16, 1, 8), BATCH(1, 1024),
      STEP(19.87) },
    { "llama3.1-405b", PRECISION_FP8, 32, "H100", 8192, 8, LAYOUT(8, 1, 2, 1, 2, 1, 1), BATCH(1, 64), STEP(3.53) },
    { "llama3.1-405b", PRECISION_FP8, 64, "H100", 8192, 30, LAYOUT(8, 4, 2, 1, 1, 1, 8), BATCH(1, 64), STEP(6.32) },
    { "llama3.1-405b", PRECISION_FP8, 128, "H100", 8192, 62, LAYOUT(8, 4, 2, 1, 2, 1, 8), BATCH(1, 128), STEP(12.18) },
    { "llama3.1-405b", PRECISION_FP8, 512, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 4, 1, 8), BATCH(1, 256), STEP(12.37) },
    { "llama3.1-405b", PRECISION_FP8, 1024, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 8, 1, 8), BATCH(1, 512),
      STEP(12.42) },
    { "llama3.1-405b", PRECISION_FP8, 2048, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 16, 1, 8), BATCH(1, 1024),
      STEP(12.56) },
    { "nemotron4-340b", PRECISION_BF16, 128, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 2, 1, 12), BATCH(1, 32), STEP(4.61) },
    { "nemotron4-340b", PRECISION_BF16, 256, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 4, 1, 12), BATCH(1, 64), STEP(4.67) },
    { "nemotron4-340b", PRECISION_BF16, 512, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 8, 1, 12), BATCH(1, 128), STEP(4.7) },
    { "nemotron4-340b", PRECISION_BF16, 1024, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 16, 1, 12), BATCH(1, 256),
      STEP(4.73) },
    { "nemotron4-340b", PRECISION_BF16, 2048, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 32, 1, 12), BATCH(1, 512),
      STEP(4.84) },
    { "nemotron4-340b", PRECISION_FP8, 128, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 2, 1, 12), BATCH(1, 32), STEP(3.16) },
    { "nemotron4-340b", PRECISION_FP8, 256, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 4, 1, 12), BATCH(1, 64), STEP(3.21) },
    { "nemotron4-340b", PRECISION_FP8, 512, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 8, 1, 12), BATCH(1, 128), STEP(3.26) },
    { "nemotron4-340b", PRECISION_FP8, 1024, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 16, 1, 12), BATCH(1, 256),
      STEP(3.34) },
    { "nemotron4-340b", PRECISION_FP8, 2048, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 32, 1, 12), BATCH(1, 512),
      STEP(3.49) },
    { "grok1-314b", PRECISION_BF16, 8, "H100", 4096, 2, LAYOUT(4, 1, 1, 2, 2, 1, 1), BATCH(1, 1024), STEP(24.00) },
    { "grok1-314b", PRECISION_BF16, 16, "H100", 4096, 4, LAYOUT(4, 1, 1, 4, 4, 1, 1), BATCH(1, 1024), STEP(21.71) },
    { "grok1-314b", PRECISION_BF16, 32, "H100", 4096, 4, LAYOUT(4, 1, 1, 8, 8, 1, 1), BATCH(1, 1024), STEP(10.70) },
    { "grok1-314b", PRECISION_BF16, 64, "H100", 8192, 8, LAYOUT(4, 1, 2, 8, 8, 1, 1), BATCH(1, 1024), STEP(21.42) },
    { "grok1-314b", PRECISION_BF16, 128, "H100", 8192, 16, LAYOUT(4, 2, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(20.73) },
    { "grok1-314b", PRECISION_BF16, 256, "H100", 8192, 32, LAYOUT(4, 4, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(20.83) },
    { "grok1-314b", PRECISION_BF16, 512, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(21.01) },
    { "grok1-314b", PRECISION_BF16, 1024, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 16, 1, 8), BATCH(1, 2048), STEP(21.20) },
    { "grok1-314b", PRECISION_BF16, 2048, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 32, 1, 8), BATCH(1, 4096), STEP(21.29) },
    { "grok1-314b", PRECISION_FP8, 8, "H100", 4096, 2, LAYOUT(4, 1, 1, 2, 2, 1, 1), BATCH(1, 1024), STEP(19.71) },
    { "grok1-314b", PRECISION_FP8, 16, "H100", 4096, 4, LAYOUT(4, 1, 1, 4, 4, 1, 1), BATCH(1, 1024), STEP(17.80) },
    { "grok1-314b", PRECISION_FP8, 32, "H100", 4096, 4, LAYOUT(4, 1, 1, 8, 8, 1, 1), BATCH(1, 1024), STEP(8.70) },
    { "grok1-314b", PRECISION_FP8, 64, "H100", 8192, 8, LAYOUT(4, 1, 2, 8, 8, 1, 1), BATCH(1, 1024), STEP(17.53) },
    { "grok1-314b", PRECISION_FP8, 128, "H100", 8192, 16, LAYOUT(4, 2, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(16.70) },
    { "grok1-314b", PRECISION_FP8, 256, "H100", 8192, 32, LAYOUT(4, 4, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(16.75) },
    { "grok1-314b", PRECISION_FP8, 512, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(16.90) },
    { "grok1-314b", PRECISION_FP8, 1024, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 16, 1, 8), BATCH(1, 2048), STEP(17.097) },
    { "grok1-314b", PRECISION_FP8, 2048, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 32, 1, 8), BATCH(1, 4096), STEP(17.30) },
    { "gpt3-175b", PRECISION_BF16, 64, "A100", 2048, 96, LAYOUT(8, 8, 1, 1, 1, 1, 3), BATCH(2, 128), STEP(26.14) },
    { "gpt3-175b", PRECISION_BF16, 64, "H100", 2048, 96, LAYOUT(8, 8, 1, 1, 1, 1, 3), BATCH(2, 128), STEP(10.98) },
    { "gpt3-175b", PRECISION_FP8, 64, "H100", 2048, 96, LAYOUT(8, 8, 1, 1, 1, 1, 3), BATCH(2, 128), STEP(9.93) },
    /* GPUs newer than H100 (validation/reference/cells-newer.csv). A row with a format was measured in that format. */
    { "llama3.1-8b", PRECISION_FP8, 8, "B200", 8192, 32, LAYOUT(1, 1, 1, 1, 8, 1, 1), BATCH(2, 128), STEP(4.28) },
    { "llama3.1-8b", PRECISION_FP8, 8, "GB200", 8192, 32, LAYOUT(1, 1, 1, 1, 8, 1, 1), BATCH(2, 128), STEP(4.16) },
    { "llama3.1-8b", PRECISION_FP8, 8, "B300", 8192, 32, LAYOUT(1, 1, 1, 1, 8, 1, 1), BATCH(2, 16), STEP(0.5481) },
    { "llama3.1-8b", PRECISION_FP8, 8, "GB300", 8192, 32, LAYOUT(1, 1, 1, 1, 8, 1, 1), BATCH(2, 128), STEP(3.49) },
    { "llama3.1-8b", PRECISION_FP8, 64, "H200", 8192, 32, LAYOUT(1, 1, 2, 1, 32, 1, 1), BATCH(1, 32), STEP(0.3532) },
    { "llama3.1-70b", PRECISION_FP8, 64, "B200", 8192, 80, LAYOUT(2, 4, 1, 1, 8, 1, 5), BATCH(1, 128), STEP(4.69) },
    { "llama3.1-70b", PRECISION_FP8, 256, "B200", 8192, 80, LAYOUT(2, 4, 1, 1, 32, 1, 20), BATCH(1, 2048),
      STEP(19.9545) },
    { "llama3.1-405b", PRECISION_BF16, 128, "GB200", 8192, 126, LAYOUT(4, 8, 2, 1, 2, 1, 8), BATCH(1, 64),
      STEP(9.473) },
    { "llama3.1-405b", PRECISION_BF16, 256, "GB200", 8192, 126, LAYOUT(4, 8, 2, 1, 4, 1, 8), BATCH(1, 128),
      STEP(9.484) },
    { "llama3.1-405b", PRECISION_BF16, 512, "GB200", 8192, 126, LAYOUT(4, 8, 2, 1, 8, 1, 8), BATCH(1, 256),
      STEP(9.508) },
    { "llama3.1-405b", PRECISION_FP8, 128, "B200", 8192, 126, LAYOUT(4, 8, 2, 1, 2, 1, 8), BATCH(1, 64), STEP(6.197) },
    { "llama3.1-405b", PRECISION_FP8, 224, "B200", 8192, 126, LAYOUT(4, 14, 2, 1, 2, 1, 9), BATCH(1, 2016),
      STEP(118.1897) },
    { "llama3.1-405b", PRECISION_FP8, 128, "GB200", 8192, 126, LAYOUT(4, 8, 2, 1, 2, 1, 8), BATCH(1, 64), STEP(6.131) },
    { "llama3.1-405b", PRECISION_FP8, 256, "GB200", 8192, 126, LAYOUT(4, 8, 2, 1, 4, 1, 8), BATCH(1, 128),
      STEP(6.183) },
    { "llama3.1-405b", PRECISION_FP8, 512, "GB200", 8192, 126, LAYOUT(4, 8, 2, 1, 8, 1, 8), BATCH(1, 256),
      STEP(6.244) },
    { "llama3.1-405b", PRECISION_FP8, 256, "GB300", 8192, 126, LAYOUT(4, 8, 1, 1, 8, 1, 4), BATCH(1, 1536),
      STEP(46.9) },
    { "llama3.1-405b", PRECISION_FP8, 576, "H200", 8192, 126, LAYOUT(8, 9, 1, 1, 8, 1, 14), BATCH(1, 2016),
      STEP(92.2874) },
    { "nemotron4-340b", PRECISION_BF16, 128, "GB200", 4096, 96, LAYOUT(8, 4, 1, 1, 4, 1, 12), BATCH(1, 32),
      STEP(2.189) },
    { "nemotron4-340b", PRECISION_BF16, 256, "GB200", 4096, 96, LAYOUT(8, 4, 1, 1, 8, 1, 12), BATCH(1, 64),
      STEP(2.19) },
    { "nemotron4-340b", PRECISION_BF16, 512, "GB200", 4096, 96, LAYOUT(8, 4, 1, 1, 16, 1, 12), BATCH(1, 128),
      STEP(2.229) },
    { "nemotron4-340b", PRECISION_FP8, 128, "GB200", 4096, 96, LAYOUT(8, 4, 1, 1, 4, 1, 12), BATCH(1, 32),
      STEP(1.483) },
    { "nemotron4-340b", PRECISION_FP8, 256, "GB200", 4096, 96, LAYOUT(8, 4, 1, 1, 8, 1, 12), BATCH(1, 64),
      STEP(1.517) },
    { "nemotron4-340b", PRECISION_FP8, 512, "GB200", 4096, 96, LAYOUT(8, 4, 1, 1, 16, 1, 12), BATCH(1, 128),
      STEP(1.549) },
    { "grok1-314b", PRECISION_BF16, 128, "GB200", 8192, 64, LAYOUT(4, 1, 1, 8, 32, 1, 1), BATCH(1, 256), STEP(7.325) },
    { "grok1-314b", PRECISION_BF16, 256, "GB200", 8192, 64, LAYOUT(4, 1, 1, 8, 64, 1, 1), BATCH(1, 512), STEP(7.39) },
    { "grok1-314b", PRECISION_BF16, 512, "GB200", 8192, 64, LAYOUT(4, 1, 1, 8, 128, 1, 1), BATCH(1, 1024),
      STEP(7.324) },
    { "grok1-314b", PRECISION_FP8, 128, "GB200", 8192, 64, LAYOUT(4, 1, 1, 8, 32, 1, 1), BATCH(1, 256), STEP(5.298) },
    { "grok1-314b", PRECISION_FP8, 256, "GB200", 8192, 64, LAYOUT(4, 1, 1, 8, 64, 1, 1), BATCH(1, 512), STEP(5.224) },
    { "grok1-314b", PRECISION_FP8, 512, "GB200", 8192, 64, LAYOUT(4, 1, 1, 8, 128, 1, 1), BATCH(1, 1024), STEP(5.193) },
    { "gpt3-175b", PRECISION_FP8, 64, "B200", 2048, 96, LAYOUT(4, 8, 1, 1, 2, 1, 6), BATCH(2, 2048), STEP(36.2336) },
    { "gpt3-175b", PRECISION_FP8, 128, "GB200", 2048, 96, LAYOUT(4, 4, 1, 1, 8, 1, 12), BATCH(2, 256), STEP(2.271) },
    { "llama3.1-70b", PRECISION_FP8, 128, "B200", 8192, 80, LAYOUT(2, 4, 1, 1, 16, 1, 5), BATCH(1, 512),
      .format = "MXFP8" },
    { "llama3.1-70b", PRECISION_FP8, 64, "GB200", 8192, 80, LAYOUT(2, 4, 1, 1, 8, 1, 5), BATCH(1, 256),
      .format = "MXFP8" },
    { "nemotron4-340b", PRECISION_FP8, 128, "B200", 4096, 96, LAYOUT(8, 4, 1, 1, 4, 1, 12), BATCH(1, 32),
      .format = "FP8 with unstated scaling" },
    /* Smoke test without a published time. */
    { "gpt3-52k", PRECISION_BF16, 8, "H100", 1024, 8, LAYOUT(2, 2, 1, 1, 2, 1, 1), BATCH(8, 32) },
};
enum { ROWS = sizeof rows / sizeof rows[0] };
_Static_assert(ROWS == RECIPE_CELLS + NEWER_ROWS + 1, "the cells, those of newer GPUs, and the smoke test");

const recipe_row *recipe_at(int i) { return i < ROWS ? &rows[i] : NULL; }

static bool matches(const recipe_row *row, const recipe_query *q, case_precision precision, const char *device)
{
    return strcmp(row->workload, q->workload) == 0 && row->precision == precision &&
           (q->layers == 0 || row->layers == q->layers) && device_is(device, row->gpu);
}

/* Returns FP8 if the query asks for it and the workload has FP8 rows; else BF16. */
static case_precision row_precision(const recipe_query *q)
{
    for (int i = 0; i < ROWS && q->precision == PRECISION_FP8; i++)
        if (strcmp(rows[i].workload, q->workload) == 0 && rows[i].precision == PRECISION_FP8) return PRECISION_FP8;
    return PRECISION_BF16;
}

/* Returns the device's row with the most GPUs, at most `gpus`. */
static const recipe_row *largest_row(const recipe_query *q, int64_t gpus, const char *device)
{
    const recipe_row *found = NULL;
    case_precision precision = row_precision(q);
    for (int i = 0; i < ROWS; i++)
        if (matches(&rows[i], q, precision, device) && rows[i].gpus <= gpus && (!found || rows[i].gpus > found->gpus))
            found = &rows[i];
    return found;
}

const recipe_row *recipe_find(const recipe_query *q, int64_t gpus)
{
    const recipe_row *of_device = q->device ? largest_row(q, gpus, q->device) : NULL;
    return of_device ? of_device : largest_row(q, gpus, PAPER_DEVICE);
}

const recipe_row *recipe_smallest(const recipe_query *q)
{
    const recipe_row *found = NULL;
    case_precision precision = row_precision(q);
    for (int i = 0; i < ROWS; i++)
        if ((matches(&rows[i], q, precision, PAPER_DEVICE) ||
             (q->device && matches(&rows[i], q, precision, q->device))) &&
            (!found || rows[i].gpus < found->gpus))
            found = &rows[i];
    return found;
}

const recipe_row *recipe_nearest(const recipe_query *q, int64_t gpus)
{
    const recipe_row *row = recipe_find(q, gpus);
    return row ? row : recipe_smallest(q);
}

bool recipe_alike(const recipe_row *a, const recipe_row *b)
{
    return strcmp(a->workload, b->workload) == 0 && strcmp(a->gpu, b->gpu) == 0 && a->precision == b->precision &&
           a->layers == b->layers && a->sequence == b->sequence;
}

/* Returns whether the case has the row's layout, scaled to its own number of ranks by the data axis. */
static bool has_layout(const recipe_row *row, const bench_case *c)
{
    const int *n = c->layout.degree;
    return row->tensor == n[AXIS_TENSOR] && row->pipeline == n[AXIS_PIPELINE] && row->context == n[AXIS_CONTEXT] &&
           row->shard == n[AXIS_SHARD] && row->expert == c->layout.expert &&
           row->chunks_per_stage == c->layout.chunks_per_stage && row->layers == c->model.layers &&
           row->sequence == c->model.sequence && row->microbatch == c->microbatch &&
           row->global_batch * c->layout.ranks == c->global_batch * row->gpus;
}

/* Returns whether the case is this row or is scaled from it. */
static bool is_row_of_case(const recipe_row *row, const bench_case *c)
{
    return strcmp(row->workload, c->workload) == 0 && row->precision == c->precision && row->gpus == c->recipe_gpus &&
           has_layout(row, c);
}

bool recipe_is_origin(const recipe_row *row, const bench_case *c)
{
    return row->step_seconds > 0.0 && is_row_of_case(row, c);
}

const recipe_row *recipe_origin(const bench_case *c, const char *device)
{
    for (int i = 0; i < ROWS; i++)
        if (recipe_is_origin(&rows[i], c) && device_is(device, rows[i].gpu)) return &rows[i];
    return NULL;
}

const char *recipe_format(const bench_case *c, const char *device)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].format && is_row_of_case(&rows[i], c) && device_is(device, rows[i].gpu)) return rows[i].format;
    return NULL;
}
