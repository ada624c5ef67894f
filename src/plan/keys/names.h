/* The words of a deck, each list in the order of its enumeration and ended by NULL. */
#pragma once

extern const char *const size_names[],
    *const precision_names[], *const backend_names[], *const tokens_names[],
                                                          *const recompute_names[],
                                                              *const sharding_names[],
                                                                  *const schedule_names[],
                                                                      *const order_names[],
                                                                          *const check_names[],
                                                                              *const overlap_names[],
                                                                                  *const answer_names[],
                                                                                      *const attention_names[],
                                                                                          *const fault_names[];
/* Operations that a fault can name. */
extern const char *const operation_names[];
