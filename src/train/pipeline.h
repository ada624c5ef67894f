/* Submits one stage's schedule. */
#pragma once
#include "train/trainer.h"

void pipeline_submit(trainer *t);
