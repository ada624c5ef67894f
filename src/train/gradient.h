/* Gradients as they become done: summed over ranks on their own queue while backward goes on. */
#pragma once
#include "train/trainer.h"

/* A bucket's last contribution was submitted: submit its reduction over the ranks that sum it. */
void gradient_reduce(trainer *t, bucket *b);
/* Norm over every logical parameter once, clip factor and loss into the step's scalars. */
void gradient_norm(trainer *t);
