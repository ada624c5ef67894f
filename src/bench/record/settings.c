/* Settings of a case as attributes. The table of keys gives names and values, so a new key is recorded by itself. */
#include "bench/record/case_group.h"
#include "plan/keys/keys.h"
#include <string.h>

static void write_key(writer *w, const char *group, key_id key, const bench_case *c)
{
    const key_row *row = key_at(key);
    char word[KEY_TEXT];
    double real;
    if (row->kind == KIND_INTEGER) {
        writer_attribute_integer(w, group, row->name, key_integer(key, c));
    } else if (row->kind == KIND_REAL) {
        memcpy(&real, (const char *)c + row->offset, sizeof real);
        writer_attribute_real(w, group, row->name, real);
    } else {
        key_write(key, c, word);
        writer_attribute_text(w, group, row->name, word);
    }
}

static void write_identity(writer *w, const char *group, const bench_case *c)
{
    writer_attribute_text(w, group, "workload", c->workload);
    writer_attribute_text(w, group, "model_name", c->model_name);
    writer_attribute_text(w, group, "backend_reason", c->backend_reason);
    writer_attribute_integer(w, group, "number", c->number);
    writer_attribute_integer(w, group, "deck_line", c->line);
    writer_attribute_flag(w, group, "proxy", c->proxy);
    writer_attribute_flag(w, group, "recipe_layout", c->recipe_layout);
    writer_attribute_integer(w, group, "ranks", c->layout.ranks);
    writer_attribute_integer(w, group, "world_ranks", c->world_ranks);
    writer_attribute_integer(w, group, "microbatches", c->microbatches);
}

static void write_model(writer *w, const char *group, const bench_case *c)
{
    const model_shape *m = &c->model;
    writer_attribute_integer(w, group, "head_dim", m->head_dim);
    writer_attribute_integer(w, group, "padded_vocabulary", m->padded_vocabulary);
    writer_attribute_real(w, group, "rope_base", m->rope_base);
    writer_attribute_flag(w, group, "rope_scaling", m->rope_scaling);
    writer_attribute_real(w, group, "norm_epsilon", m->norm_epsilon);
    writer_attribute_real(w, group, "init_std", m->init_std);
    writer_attribute_real(w, group, "output_init_std", m->output_init_std);
    writer_attribute_flag(w, group, "init_fan_in", m->init == INIT_FAN_IN);
    writer_attribute_flag(w, group, "labels_next_token", m->labels_next_token);
    writer_attribute_real(w, group, "recipe_flops_per_sequence", c->recipe_flops_per_sequence);
    writer_attribute_real(w, group, "model_flops_per_sequence", c->model_flops_per_sequence);
}

static void write_optimizer(writer *w, const char *group, const optimizer_rule *o)
{
    writer_attribute_real(w, group, "beta1", o->beta1);
    writer_attribute_real(w, group, "beta2", o->beta2);
    writer_attribute_real(w, group, "adam_epsilon", o->epsilon);
    writer_attribute_real(w, group, "weight_decay", o->decay);
    writer_attribute_real(w, group, "clip", o->clip);
    writer_attribute_real(w, group, "learning_rate_minimum", o->learning_rate_minimum);
    writer_attribute_flag(w, group, "learning_rate_constant", o->learning_rate_constant);
    writer_attribute_flag(w, group, "learning_rate_from_zero", o->learning_rate_from_zero);
    writer_attribute_flag(w, group, "decays_vectors", o->decays_vectors);
}

void settings_write(writer *w, const char *group, const bench_case *c)
{
    for (key_id key = 0; key < KEYS; key++) write_key(w, group, key, c);
    write_identity(w, group, c);
    write_model(w, group, c);
    write_optimizer(w, group, &c->optimizer);
}
