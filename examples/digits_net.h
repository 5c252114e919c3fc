/* digits_net.h - residual networks as a table of layers, and the handwritten digits: what train_digits and
   train_digits_parallel share
   SPDX-License-Identifier: MIT

   A program defines PROGRAM (its name, for messages) and, where exit() is not enough to end it, DIGITS_EXIT,
   before it includes this. All state is in a model, so that threads may have one each. */
#ifndef EXAMPLES_DIGITS_NET_H
#define EXAMPLES_DIGITS_NET_H

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckconv.h"

#ifndef DIGITS_EXIT
#define DIGITS_EXIT exit
#endif

/* ---- The network ---- */

enum { IMAGE = 8, PIXELS = IMAGE * IMAGE, CLASSES = 10, MAX_LAYERS = 64 };
typedef enum layer_kind { CONV, NORM, POOL } layer_kind;

/* A layer reads the one above it. Convolutions pad with filter / 2. `block` closes a residual block of that
   many layers: what entered the block is added to the result. POOL: depthwise, all weights 1/taps. */
typedef struct layer_spec {
    const char *name;
    layer_kind kind;
    int groups, channels, filter, stride, block;
} layer_spec;

/* clang-format off */
static const layer_spec DIGITS_NET[] = {
    /* name              kind  groups channels filter stride block */
    {"stem 3x3",         CONV,  1,     32,      3,     1,     0},
    {"norm silu",        NORM,  8,     32,      0,     0,     0},
    {"grouped 3x3",      CONV,  8,     32,      3,     1,     0},
    {"norm silu",        NORM,  8,     32,      0,     0,     0},
    {"pointwise + skip", CONV,  1,     32,      1,     1,     3},
    {"grouped 3x3",      CONV,  8,     32,      3,     1,     0},
    {"norm silu",        NORM,  8,     32,      0,     0,     0},
    {"pointwise + skip", CONV,  1,     32,      1,     1,     3},
    {"grouped 3x3 / 2",  CONV,  4,     64,      3,     2,     0},
    {"norm silu",        NORM,  8,     64,      0,     0,     0},
    {"depthwise 3x3",    CONV, 64,     64,      3,     1,     0},
    {"norm silu",        NORM,  8,     64,      0,     0,     0},
    {"pointwise + skip", CONV,  1,     64,      1,     1,     3},
    {"depthwise 3x3",    CONV, 64,     64,      3,     1,     0},
    {"norm silu",        NORM,  8,     64,      0,     0,     0},
    {"pointwise + skip", CONV,  1,     64,      1,     1,     3},
    {"norm silu",        NORM,  8,     64,      0,     0,     0},
    {"average pool",     POOL, 64,     64,      4,     1,     0},
    {"linear head",      CONV,  1,     CLASSES, 1,     1,     0},
};
/* clang-format on */
enum { DIGITS_LAYERS = (int)(sizeof DIGITS_NET / sizeof DIGITS_NET[0]) };

typedef struct layer {
    int in_channels, in_size, out_size;
    ckconv_plan fwd, bwd_data, bwd_weight; /* NORM: bwd_data gives all its gradients */
    size_t param, params;  /* first of its floats in model.param, and how many; NORM: gamma, beta */
    float *mean, *inv_std; /* NORM: saved by forward for backward */
    int skip_act;          /* activation that is added to the output, or -1 */
    int skip_grad;         /* gradient that is added to that of the input, or -1 */
} layer;

typedef struct options {
    int epochs, batch, seed, threads;
    double lr;
    ckconv_dtype dtype;
    ckconv_engine engine;
    const char *data;
} options;

typedef struct model {
    const layer_spec *net;
    int layer_count, image, image_channels;
    int batch;    /* images of a run */
    int whole;    /* images that a gradient is the mean over: a batch, or that of all runs of a step */
    int gpu;      /* which one, should it run on a GPU */
    size_t align; /* parameters of a layer begin at a multiple of so many floats; 0: of 1 */
    void (*after)(void *user,
                  int index); /* called when the gradients of a layer are in the stream; or NULL */
    void *user;
    options opt;
    ckconv_options how;
    ckconv_device device;
    ckconv_error error;
    uint64_t rng;
    layer layers[MAX_LAYERS];
    void *act[MAX_LAYERS + 1], *grad[MAX_LAYERS + 1]; /* on the device; entry i enters layer i */
    size_t params, trained;    /* floats up to the constants of POOL, gaps included; without gaps */
    float *param, *param_grad; /* on the device: all in one piece */
    float *host_param, *host_grad, *moment1, *moment2;
    double *values; /* host copies of the images or the logits of a batch: as numbers, as stored */
    void *stored;
    void *workspace; /* one for all plans: the largest need */
    size_t workspace_bytes;
    int64_t step, steps;
} model;

typedef struct digits {
    int count;
    unsigned char (*pixel)[PIXELS], *label;
} digits;

/* ---- Small tools ---- */

static inline void fail(int status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs(PROGRAM ": ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    DIGITS_EXIT(status);
}

/* Every ckconv call goes through here: the error text says which argument and why. */
static inline void check(const model *m, ckconv_status status)
{
    if (status != CKCONV_OK) {
        fail(2, "%s: %s", ckconv_status_text(status), m->error.text);
    }
}

/* Nothing is freed: all memory is in use until the program ends. */
static inline void *host_alloc(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (memory == NULL) {
        fail(2, "out of memory");
    }
    return memory;
}

static inline void *device_alloc(model *m, size_t bytes)
{
    void *memory = ckconv_device_alloc(&m->device, bytes, &m->error);
    if (memory == NULL) {
        fail(2, "%s", m->error.text);
    }
    check(m, ckconv_device_fill(&m->device, memory, 0, bytes, &m->error));
    return memory;
}

static inline void upload(model *m, void *dst, const void *src, size_t bytes)
{
    check(m, ckconv_device_upload(&m->device, dst, src, bytes, &m->error));
}

static inline void download(model *m, void *dst, const void *src, size_t bytes)
{
    check(m, ckconv_device_download(&m->device, dst, src, bytes, &m->error));
}

static inline double now(void)
{
    ckconv_device cpu;
    ckconv_timer t;
    ckconv_device_cpu(&cpu);
    if (ckconv_timer_create(&cpu, &t, NULL) != CKCONV_OK) {
        fail(2, "no timer");
    }
    ckconv_timer_start(&cpu, &t, NULL);
    return t.cpu_from;
}

/* splitmix64: the same numbers on every machine. */
static inline uint64_t rng_next(model *m)
{
    uint64_t z = (m->rng += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline int rng_below(model *m, int n)
{
    return (int)(rng_next(m) % (uint64_t)n);
}

static inline double rng_uniform(model *m)
{
    return (double)(rng_next(m) >> 11) * (1.0 / 9007199254740992.0);
}

static inline double rng_normal(model *m)
{
    double radius = sqrt(-2 * log(1 - rng_uniform(m)));
    return radius * cos(6.283185307179586 * rng_uniform(m));
}

/* ---- Plans ---- */

static inline void need_workspace(model *m, const ckconv_plan *plan)
{
    if ((size_t)plan->workspace_bytes > m->workspace_bytes) {
        m->workspace_bytes = (size_t)plan->workspace_bytes;
    }
}

static inline void plan_pass(model *m, ckconv_plan *plan, ckconv_op op, const ckconv_conv_desc *d)
{
    check(m, ckconv_plan_conv(plan, op, d, &m->how, &m->device, &m->error));
    need_workspace(m, plan);
}

/* The first layer needs no gradient of its input, POOL none of its weights: they get no such plan. */
static inline void plan_conv(model *m, int index, int pad)
{
    const layer_spec *s = &m->net[index];
    layer *l = &m->layers[index];
    ckconv_conv_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = 2;
    d.g = s->groups;
    d.n = m->batch;
    d.k = s->channels / s->groups;
    d.c = l->in_channels / s->groups;
    for (int i = 0; i < 2; i++) {
        d.filter[i] = s->filter;
        d.input[i] = l->in_size;
        d.stride[i] = s->stride;
        d.pad_lo[i] = d.pad_hi[i] = pad;
    }
    d.in.dtype = d.out.dtype = m->opt.dtype;
    d.wei.dtype = CKCONV_F32;
    if (s->kind == CONV) {
        plan_pass(m, &l->bwd_weight, CKCONV_BWD_WEIGHT, &d);
    }
    ckconv_conv_desc fwd = d, bwd = d;
    fwd.num_d = l->skip_act >= 0;
    fwd.op_out.kind = fwd.num_d ? CKCONV_ADD : CKCONV_PASS;
    plan_pass(m, &l->fwd, CKCONV_FWD, &fwd);
    if (index > 0) {
        bwd.num_d = l->skip_grad >= 0;
        bwd.op_in.kind = bwd.num_d ? CKCONV_ADD : CKCONV_PASS;
        plan_pass(m, &l->bwd_data, CKCONV_BWD_DATA, &bwd);
    }
}

static inline void plan_norm(model *m, int index)
{
    const layer_spec *s = &m->net[index];
    layer *l = &m->layers[index];
    ckconv_groupnorm_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = 2;
    d.g = s->groups;
    d.n = m->batch;
    d.c = s->channels / s->groups;
    d.input[0] = d.input[1] = l->in_size;
    d.eps = 1e-5;
    d.in.dtype = m->opt.dtype;
    d.param_dtype = CKCONV_F32;
    d.act = CKCONV_SILU;
    check(m, ckconv_plan_groupnorm(&l->fwd, CKCONV_GROUPNORM_FWD, &d, &m->how, &m->device, &m->error));
    check(m, ckconv_plan_groupnorm(&l->bwd_data, CKCONV_GROUPNORM_BWD, &d, &m->how, &m->device, &m->error));
    need_workspace(m, &l->fwd);
    need_workspace(m, &l->bwd_data);
    size_t bytes = sizeof(float) * (size_t)m->batch * (size_t)s->groups;
    l->mean = (float *)device_alloc(m, bytes);
    l->inv_std = (float *)device_alloc(m, bytes);
}

static inline void *alloc_activation(model *m, int channels, int size)
{
    size_t count = (size_t)m->batch * (size_t)channels * (size_t)size * (size_t)size;
    return device_alloc(m, count * ckconv_dtype_size(m->opt.dtype));
}

/* Sizes flow down the table. Returns the floats of all parameters and constants. */
static inline size_t build_layers(model *m)
{
    int channels = m->image_channels, size = m->image;
    size_t constants = 0, align = m->align ? m->align : 1;
    for (int i = 0; i < m->layer_count; i++) {
        m->layers[i].skip_act = m->layers[i].skip_grad = -1;
        if (m->net[i].block > 0) {
            int first = i + 1 - m->net[i].block;
            m->layers[i].skip_act = first;
            m->layers[first].skip_grad = i + 1;
        }
    }
    m->act[0] = alloc_activation(m, channels, size);
    for (int i = 0; i < m->layer_count; i++) {
        const layer_spec *s = &m->net[i];
        layer *l = &m->layers[i];
        int pad = s->kind == POOL ? 0 : s->filter / 2;
        l->in_channels = channels;
        l->in_size = l->out_size = size;
        if (s->kind == NORM) {
            l->params = 2 * (size_t)s->channels;
            plan_norm(m, i);
        } else {
            l->params = (size_t)(s->channels * (channels / s->groups) * s->filter * s->filter);
            l->out_size = (size + 2 * pad - s->filter) / s->stride + 1;
            plan_conv(m, i, pad);
        }
        l->param = m->params;
        if (s->kind == POOL) {
            constants += l->params;
        } else {
            m->params += (l->params + align - 1) / align * align;
            m->trained += l->params;
        }
        channels = s->channels;
        size = l->out_size;
        m->act[i + 1] = alloc_activation(m, channels, size);
        m->grad[i + 1] = alloc_activation(m, channels, size);
    }
    return m->params + constants;
}

/* He initialisation of weights; gamma 1, beta 0. The last convolution of a block and the head
   start small. */
static inline void initialise(model *m)
{
    size_t constant = m->params;
    for (int i = 0; i < m->layer_count; i++) {
        const layer_spec *s = &m->net[i];
        layer *l = &m->layers[i];
        if (s->kind == POOL) {
            l->param = constant;
            constant += l->params;
        }
        int taps = s->filter * s->filter, quiet = s->block > 0 || i == m->layer_count - 1;
        double spread = sqrt(2.0 / (l->in_channels / s->groups * (s->kind == CONV ? taps : 1)));
        for (size_t j = 0; j < l->params; j++) {
            double value = s->kind == CONV   ? (quiet ? 0.3 : 1) * spread * rng_normal(m)
                           : s->kind == POOL ? 1.0 / taps
                                             : j < l->params / 2;
            m->host_param[l->param + j] = (float)value;
        }
    }
    upload(m, m->param, m->host_param, constant * sizeof(float));
}

/* With engine auto ckconv decides: a plan without device facts says where it will run. Of several GPUs m->gpu
   is taken, unless there are fewer. */
static inline void choose_device(model *m)
{
    ckconv_conv_desc d;
    ckconv_plan plan;
    int count = ckconv_device_count();
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.n = d.k = d.c = d.filter[0] = d.input[0] = 1;
    if (m->how.engine == CKCONV_ENGINE_AUTO) {
        check(m, ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, NULL, &m->error));
        m->device = plan.device;
    } else {
        ckconv_device_cpu(&m->device);
    }
    if (m->how.engine == CKCONV_ENGINE_GPU || m->device.kind != CKCONV_DEVICE_CPU) {
        check(m, ckconv_device_gpu(count > 0 ? m->gpu % count : 0, &m->device, &m->error));
    }
    check(m, ckconv_device_open(&m->device, &m->error));
}

static inline int classes(const model *m)
{
    return m->net[m->layer_count - 1].channels;
}

static inline size_t image_values(const model *m)
{
    return (size_t)m->image_channels * (size_t)m->image * (size_t)m->image;
}

/* What is set before: net, layer_count, image, image_channels, batch, whole, gpu, align, after, user. */
static inline void build_model(model *m, const options *opt)
{
    m->opt = *opt;
    m->how.engine = opt->engine;
    m->how.threads = opt->threads;
    m->rng = (uint64_t)opt->seed;
    choose_device(m);
    size_t floats = build_layers(m);
    size_t values = image_values(m) > (size_t)classes(m) ? image_values(m) : (size_t)classes(m);
    m->workspace = m->workspace_bytes > 0 ? device_alloc(m, m->workspace_bytes) : NULL;
    m->param = (float *)device_alloc(m, floats * sizeof(float));
    m->param_grad = (float *)device_alloc(m, m->params * sizeof(float));
    m->host_param = (float *)host_alloc(floats, sizeof(float));
    m->host_grad = (float *)host_alloc(m->params, sizeof(float));
    m->moment1 = (float *)host_alloc(m->params, sizeof(float));
    m->moment2 = (float *)host_alloc(m->params, sizeof(float));
    m->values = (double *)host_alloc((size_t)m->batch * values, sizeof(double));
    m->stored = host_alloc((size_t)m->batch * values, sizeof(float));
    initialise(m);
}

/* ---- Forward, backward, update ---- */

static inline void run(model *m, const ckconv_plan *plan, const ckconv_args *args)
{
    check(m, ckconv_run(plan, args, m->workspace, m->workspace_bytes, NULL, &m->error));
}

static inline void forward(model *m)
{
    for (int i = 0; i < m->layer_count; i++) {
        const layer *l = &m->layers[i];
        ckconv_args a;
        memset(&a, 0, sizeof a);
        a.in = m->act[i];
        a.out = m->act[i + 1];
        if (m->net[i].kind == NORM) {
            a.gamma = m->param + l->param;
            a.beta = m->param + l->param + l->params / 2;
            a.mean = l->mean;
            a.inv_std = l->inv_std;
        } else {
            a.wei = m->param + l->param;
            a.d[0] = l->skip_act >= 0 ? m->act[l->skip_act] : NULL;
        }
        run(m, &l->fwd, &a);
    }
}

static inline void backward_norm(model *m, int i)
{
    const layer *l = &m->layers[i];
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = m->act[i];
    a.dout = m->grad[i + 1];
    a.gamma = m->param + l->param;
    a.beta = m->param + l->param + l->params / 2;
    a.saved_mean = l->mean;
    a.saved_inv_std = l->inv_std;
    a.din = m->grad[i];
    a.dgamma = m->param_grad + l->param;
    a.dbeta = m->param_grad + l->param + l->params / 2;
    run(m, &l->bwd_data, &a);
}

static inline void backward_conv(model *m, int i)
{
    const layer *l = &m->layers[i];
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.dout = m->grad[i + 1];
    if (m->net[i].kind == CONV) {
        a.in = m->act[i];
        a.dwei = m->param_grad + l->param;
        run(m, &l->bwd_weight, &a);
        a.in = NULL;
        a.dwei = NULL;
    }
    if (i > 0) {
        a.wei = m->param + l->param;
        a.din = m->grad[i];
        a.d[0] = l->skip_grad >= 0 ? m->grad[l->skip_grad] : NULL;
        run(m, &l->bwd_data, &a);
    }
}

static inline void backward(model *m)
{
    for (int i = m->layer_count - 1; i >= 0; i--) {
        if (m->net[i].kind == NORM) {
            backward_norm(m, i);
        } else {
            backward_conv(m, i);
        }
        if (m->after != NULL) {
            m->after(m->user, i);
        }
    }
}

/* Softmax cross-entropy of the first `count` images of a run. Adds to loss and right; with train set,
   leaves the gradient of the mean in the last entry of grad (labels smoothed, unlike in the loss). */
static inline void softmax_loss(model *m, const unsigned char *label, int count, int train, double *loss,
                                int *right)
{
    const double smooth = 0.05;
    const int width = classes(m);
    size_t logits = (size_t)m->batch * (size_t)width, bytes = logits * ckconv_dtype_size(m->opt.dtype);
    download(m, m->stored, m->act[m->layer_count], bytes);
    ckconv_to_double(m->opt.dtype, m->stored, m->values, logits);
    for (int i = 0; i < count; i++) {
        double *row = m->values + i * width, sum = 0;
        int best = 0;
        for (int k = 1; k < width; k++) {
            best = row[k] > row[best] ? k : best;
        }
        double top = row[best];
        for (int k = 0; k < width; k++) {
            row[k] = exp(row[k] - top);
            sum += row[k];
        }
        *loss -= log(row[label[i]] / sum + 1e-300);
        *right += best == label[i];
        for (int k = 0; k < width; k++) {
            double target = smooth / width + (k == label[i] ? 1 - smooth : 0);
            row[k] = (row[k] / sum - target) / m->whole;
        }
    }
    if (train) {
        ckconv_from_double(m->opt.dtype, m->values, m->stored, logits);
        upload(m, m->grad[m->layer_count], m->stored, bytes);
    }
}

/* Adam with decoupled decay of the weights, cosine learning rate after a short linear rise; the gradients are
   in host_grad. */
static inline void update(model *m)
{
    const double beta1 = 0.9, beta2 = 0.99, decay = 0.05, pi = 3.141592653589793;
    double t = (double)++m->step, total = (double)m->steps, rise = 0.05 * total;
    double lr = m->opt.lr * (t < rise ? t / rise : 0.5 + 0.5 * cos(pi * (t - rise) / (total - rise)));
    double unbias1 = 1 / (1 - pow(beta1, t)), unbias2 = 1 / (1 - pow(beta2, t));
    for (int index = 0; index < m->layer_count; index++) {
        const layer *l = &m->layers[index];
        double shrink = m->net[index].kind == CONV ? 1 - lr * decay : 1;
        size_t end = m->net[index].kind == POOL ? l->param : l->param + l->params;
        for (size_t i = l->param; i < end; i++) {
            double g = (double)m->host_grad[i];
            double first = beta1 * (double)m->moment1[i] + (1 - beta1) * g;
            double second = beta2 * (double)m->moment2[i] + (1 - beta2) * g * g;
            double move = first * unbias1 / (sqrt(second * unbias2) + 1e-8);
            m->moment1[i] = (float)first;
            m->moment2[i] = (float)second;
            m->host_param[i] = (float)(shrink * (double)m->host_param[i] - lr * move);
        }
    }
    upload(m, m->param, m->host_param, m->params * sizeof(float));
}

/* ---- Data ---- */

static inline int parse_digit(const char *at, unsigned char *pixel, unsigned char *label)
{
    for (int i = 0; i <= PIXELS; i++) {
        char *end;
        long value = strtol(at, &end, 10);
        if (end == at || value < 0 || value > (i < PIXELS ? 16 : CLASSES - 1) ||
            *end != (i < PIXELS ? ',' : '\n')) {
            return 0;
        }
        *(i < PIXELS ? pixel + i : label) = (unsigned char)value;
        at = end + 1;
    }
    return 1;
}

/* Every fifth digit is for the test: the split does not depend on the seed. */
static inline void load_digits(const options *opt, digits *train, digits *test)
{
    char text[512];
    int lines = 0;
    const char *path = opt->data;
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        fail(2, "--data %s: cannot read it (start in the folder that holds examples/, or name the file)",
             path);
    }
    while (fgets(text, sizeof text, f) != NULL) {
        digits *d = ++lines % 5 == 0 ? test : train;
        size_t count = (size_t)d->count + 1;
        d->pixel = (unsigned char(*)[PIXELS])realloc(d->pixel, count * PIXELS);
        d->label = (unsigned char *)realloc(d->label, count);
        if (d->pixel == NULL || d->label == NULL) {
            fail(2, "out of memory");
        }
        if (!parse_digit(text, d->pixel[d->count], &d->label[d->count])) {
            fail(2, "--data %s: line %d is not 64 values 0..16 and a digit", path, lines);
        }
        d->count++;
    }
    fclose(f);
    if (train->count < opt->batch || test->count == 0) {
        fail(2, "--data %s: its %d training and %d test digits are too few for --batch %d", path,
             train->count, test->count, opt->batch);
    }
}

/* Write one image as doubles, moved by (dy, dx); what comes in from outside is paper (0). */
static inline void put_image(double *dst, const unsigned char *pixel, int dy, int dx)
{
    for (int y = 0; y < IMAGE; y++) {
        for (int x = 0; x < IMAGE; x++) {
            int from_y = y - dy, from_x = x - dx;
            int inside = from_y >= 0 && from_y < IMAGE && from_x >= 0 && from_x < IMAGE;
            dst[y * IMAGE + x] = inside ? pixel[from_y * IMAGE + from_x] / 8.0 : 0.0;
        }
    }
}

/* Where an image is moved to, up to a pixel at random. */
typedef struct shift {
    int dy, dx;
} shift;
static inline void draw_shifts(model *m, shift *shifts, int count)
{
    for (int i = 0; i < count; i++) {
        shifts[i].dy = rng_below(m, 3) - 1;
        shifts[i].dx = rng_below(m, 3) - 1;
    }
}

/* All of m->values becomes the input of the first layer. */
static inline void upload_values(model *m)
{
    size_t total = (size_t)m->batch * image_values(m);
    ckconv_from_double(m->opt.dtype, m->values, m->stored, total);
    upload(m, m->act[0], m->stored, total * ckconv_dtype_size(m->opt.dtype));
}

/* Upload `count` digits for a run: order[0..count) of d, each moved by its shift, or those from `first` on,
   unmoved, when order is NULL. Places past count keep old images; nobody reads their results. */
static inline void upload_batch(model *m, const digits *d, const int *order, const shift *shifts, int first,
                                int count, unsigned char *label)
{
    for (int i = 0; i < count; i++) {
        int from = order ? order[i] : first + i;
        put_image(m->values + i * PIXELS, d->pixel[from], order ? shifts[i].dy : 0, order ? shifts[i].dx : 0);
        label[i] = d->label[from];
    }
    upload_values(m);
}

static inline void shuffle(model *m, int *order, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int j = rng_below(m, i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

/* ---- Command line ---- */

#define DIGITS_DEFAULTS                                                                                      \
    {                                                                                                        \
        20, 32, 1, 1, 0.008, CKCONV_F32, CKCONV_ENGINE_AUTO, "examples/digits.csv"                           \
    }

static inline int whole_number(const char *name, const char *text, long low, long high)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < low || value > high) {
        fail(2, "%s %s: must be a whole number from %ld to %ld", name, text, low, high);
    }
    return (int)value;
}

/* Is it one of the options that both programs have? */
static inline int parse_shared_option(options *o, const char *name, const char *value)
{
    const struct {
        const char *name;
        int *place;
        long low, high;
    } numbers[] = {{"--epochs", &o->epochs, 1, 1000},
                   {"--batch", &o->batch, 1, 1024},
                   {"--seed", &o->seed, 0, 2147483647},
                   {"--threads", &o->threads, 0, 1024}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].place = whole_number(name, value, numbers[i].low, numbers[i].high);
            return 1;
        }
    }
    if (strcmp(name, "--lr") == 0) {
        char *end;
        o->lr = strtod(value, &end);
        if (end == value || *end != '\0' || !(o->lr > 0 && o->lr < 1)) {
            fail(2, "--lr %s: must be between 0 and 1", value);
        }
    } else if (strcmp(name, "--dtype") == 0) {
        o->dtype = ckconv_dtype_from_name(value);
        if (o->dtype != CKCONV_F32 && o->dtype != CKCONV_BF16) {
            fail(2, "--dtype %s: must be f32 or bf16", value);
        }
    } else if (strcmp(name, "--engine") == 0) {
        o->engine = ckconv_engine_from_name(value);
        if (o->engine < 0 || (o->engine == CKCONV_ENGINE_AUTO && strcmp(value, "auto") != 0)) {
            fail(2, "--engine %s: must be auto, ref, cpu or gpu", value);
        }
    } else if (strcmp(name, "--data") == 0) {
        o->data = value;
    } else {
        return 0;
    }
    return 1;
}

#endif /* EXAMPLES_DIGITS_NET_H */
