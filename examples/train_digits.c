/* train_digits.c - trains a small residual network on handwritten digits. Every convolution and every group
   norm, forward and backward, is ckconv's.

       train_digits [--epochs 20] [--batch 32] [--lr 0.008] [--seed 1] [--dtype f32|bf16] [--threads 1]
                    [--engine auto|ref|cpu|gpu] [--data examples/digits.csv] [--svg build/digits.svg]

   What to copy from here: plan once for every layer, one workspace for all plans, run often. Residual sums
   need no kernel of their own: forward they are the ADD epilogue of a convolution, backward that of a
   bwd_data. All tensors live where ckconv_device_alloc puts them, so that the same program runs on a GPU;
   only the loss and the optimiser work on the host. With --dtype bf16 activations and their gradients are
   bf16, weights stay f32. The result is the same for any number of threads (0: all cores). One by default:
   a second one halves the time on an idle machine, but layers this small lose where other programs run.

   Exit status: 0 at 97 % test accuracy or more, 1 below, 2 for bad options or files. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckconv.h"
#include "svg_curves.h"

/* ---- The network ---- */

static const double REQUIRED = 97.0; /* test accuracy in % */
enum { IMAGE = 8, PIXELS = IMAGE * IMAGE, CLASSES = 10 };
typedef enum layer_kind { CONV, NORM, POOL } layer_kind;

/* A layer reads the one above it. Convolutions pad with filter / 2. `block` closes a residual block of that
   many layers: what entered the block is added to the result. POOL: depthwise, all weights 1/taps. */
typedef struct layer_spec {
    const char *name;
    layer_kind kind;
    int groups, channels, filter, stride, block;
} layer_spec;

/* clang-format off */
static const layer_spec NET[] = {
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
enum { LAYERS = (int)(sizeof NET / sizeof NET[0]) };

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
    const char *data, *svg;
} options;

typedef struct model {
    options opt;
    ckconv_options how;
    ckconv_device device;
    layer layers[LAYERS];
    void *act[LAYERS + 1], *grad[LAYERS + 1]; /* on the device; entry i enters layer i */
    size_t params;                            /* that are trained; the constants of POOL follow them */
    float *param, *param_grad;                /* on the device: all in one piece */
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

static void fail(int status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("train_digits: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(status);
}

/* Every ckconv call goes through here: the error text says which argument and why. */
static ckconv_error ck_error;
static void check(ckconv_status status)
{
    if (status != CKCONV_OK) {
        fail(2, "%s: %s", ckconv_status_text(status), ck_error.text);
    }
}

/* Nothing is freed: all memory is in use until the program ends. */
static void *host_alloc(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL) {
        fail(2, "out of memory");
    }
    return memory;
}

static void *device_alloc(const model *m, size_t bytes)
{
    void *memory = ckconv_device_alloc(&m->device, bytes, &ck_error);
    if (memory == NULL) {
        fail(2, "%s", ck_error.text);
    }
    check(ckconv_device_fill(&m->device, memory, 0, bytes, &ck_error));
    return memory;
}

static double now(void)
{
    ckconv_device cpu;
    ckconv_timer t;
    ckconv_device_cpu(&cpu);
    check(ckconv_timer_create(&cpu, &t, &ck_error));
    ckconv_timer_start(&cpu, &t, NULL);
    return t.cpu_from;
}

/* splitmix64: the same numbers on every machine. */
static uint64_t rng_state;
static uint64_t rng_next(void)
{
    uint64_t z = (rng_state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static int rng_below(int n)
{
    return (int)(rng_next() % (uint64_t)n);
}

static double rng_uniform(void)
{
    return (double)(rng_next() >> 11) * (1.0 / 9007199254740992.0);
}

static double rng_normal(void)
{
    double radius = sqrt(-2 * log(1 - rng_uniform()));
    return radius * cos(6.283185307179586 * rng_uniform());
}

/* ---- Plans ---- */

static void need_workspace(model *m, const ckconv_plan *plan)
{
    if ((size_t)plan->workspace_bytes > m->workspace_bytes) {
        m->workspace_bytes = (size_t)plan->workspace_bytes;
    }
}

static void plan_pass(model *m, ckconv_plan *plan, ckconv_op op, const ckconv_conv_desc *d)
{
    check(ckconv_plan_conv(plan, op, d, &m->how, &m->device, &ck_error));
    need_workspace(m, plan);
}

/* The first layer needs no gradient of its input, POOL none of its weights: they get no such plan. */
static void plan_conv(model *m, int index, int pad)
{
    const layer_spec *s = &NET[index];
    layer *l = &m->layers[index];
    ckconv_conv_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = 2;
    d.g = s->groups;
    d.n = m->opt.batch;
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

static void plan_norm(model *m, int index)
{
    const layer_spec *s = &NET[index];
    layer *l = &m->layers[index];
    ckconv_groupnorm_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = 2;
    d.g = s->groups;
    d.n = m->opt.batch;
    d.c = s->channels / s->groups;
    d.input[0] = d.input[1] = l->in_size;
    d.eps = 1e-5;
    d.in.dtype = m->opt.dtype;
    d.param_dtype = CKCONV_F32;
    d.act = CKCONV_SILU;
    check(ckconv_plan_groupnorm(&l->fwd, CKCONV_GROUPNORM_FWD, &d, &m->how, &m->device, &ck_error));
    check(ckconv_plan_groupnorm(&l->bwd_data, CKCONV_GROUPNORM_BWD, &d, &m->how, &m->device, &ck_error));
    need_workspace(m, &l->fwd);
    need_workspace(m, &l->bwd_data);
    size_t bytes = sizeof(float) * (size_t)m->opt.batch * (size_t)s->groups;
    l->mean = (float *)device_alloc(m, bytes);
    l->inv_std = (float *)device_alloc(m, bytes);
}

static void *alloc_activation(const model *m, int channels, int size)
{
    return device_alloc(m, (size_t)(m->opt.batch * channels * size * size) * ckconv_dtype_size(m->opt.dtype));
}

/* Sizes flow down the table. Returns the floats of all parameters and constants. */
static size_t build_layers(model *m)
{
    int channels = 1, size = IMAGE;
    size_t constants = 0;
    for (int i = 0; i < LAYERS; i++) {
        m->layers[i].skip_act = m->layers[i].skip_grad = -1;
        if (NET[i].block > 0) {
            int first = i + 1 - NET[i].block;
            m->layers[i].skip_act = first;
            m->layers[first].skip_grad = i + 1;
        }
    }
    m->act[0] = alloc_activation(m, channels, size);
    for (int i = 0; i < LAYERS; i++) {
        const layer_spec *s = &NET[i];
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
        m->params += s->kind == POOL ? 0 : l->params;
        constants += s->kind == POOL ? l->params : 0;
        channels = s->channels;
        size = l->out_size;
        m->act[i + 1] = alloc_activation(m, channels, size);
        m->grad[i + 1] = alloc_activation(m, channels, size);
    }
    return m->params + constants;
}

/* He initialisation of weights; gamma 1, beta 0. The last convolution of a block and the head
   start small. */
static void initialise(model *m)
{
    size_t constant = m->params;
    for (int i = 0; i < LAYERS; i++) {
        const layer_spec *s = &NET[i];
        layer *l = &m->layers[i];
        if (s->kind == POOL) {
            l->param = constant;
            constant += l->params;
        }
        int taps = s->filter * s->filter, quiet = s->block > 0 || i == LAYERS - 1;
        double spread = sqrt(2.0 / (l->in_channels / s->groups * (s->kind == CONV ? taps : 1)));
        for (size_t j = 0; j < l->params; j++) {
            double value = s->kind == CONV   ? (quiet ? 0.3 : 1) * spread * rng_normal()
                           : s->kind == POOL ? 1.0 / taps
                                             : j < l->params / 2;
            m->host_param[l->param + j] = (float)value;
        }
    }
    check(ckconv_device_upload(&m->device, m->param, m->host_param, constant * sizeof(float), &ck_error));
}

/* With engine auto ckconv decides: a plan without device facts says where it will run. */
static void choose_device(model *m)
{
    ckconv_conv_desc d;
    ckconv_plan plan;
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.n = d.k = d.c = d.filter[0] = d.input[0] = 1;
    if (m->how.engine == CKCONV_ENGINE_GPU) {
        check(ckconv_device_gpu(0, &m->device, &ck_error));
    } else if (m->how.engine == CKCONV_ENGINE_AUTO) {
        check(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, NULL, &ck_error));
        m->device = plan.device;
    } else {
        ckconv_device_cpu(&m->device);
    }
    check(ckconv_device_open(&m->device, &ck_error));
}

static void build_model(model *m, const options *opt)
{
    m->opt = *opt;
    m->how.engine = opt->engine;
    m->how.threads = opt->threads;
    choose_device(m);
    size_t floats = build_layers(m);
    m->workspace = m->workspace_bytes > 0 ? device_alloc(m, m->workspace_bytes) : NULL;
    m->param = (float *)device_alloc(m, floats * sizeof(float));
    m->param_grad = (float *)device_alloc(m, m->params * sizeof(float));
    m->host_param = (float *)host_alloc(floats, sizeof(float));
    m->host_grad = (float *)host_alloc(m->params, sizeof(float));
    m->moment1 = (float *)host_alloc(m->params, sizeof(float));
    m->moment2 = (float *)host_alloc(m->params, sizeof(float));
    m->values = (double *)host_alloc((size_t)opt->batch * PIXELS, sizeof(double));
    m->stored = host_alloc((size_t)opt->batch * PIXELS, sizeof(float));
    initialise(m);
    printf("network: %d layers, %lu parameters; engine %s, dtype %s, batch %d, workspace %lu bytes\n", LAYERS,
           (unsigned long)m->params, ckconv_engine_name(m->layers[0].fwd.engine),
           ckconv_dtype_name(opt->dtype), opt->batch, (unsigned long)m->workspace_bytes);
}

/* ---- Forward, backward, update ---- */

static void run(const model *m, const ckconv_plan *plan, const ckconv_args *args)
{
    check(ckconv_run(plan, args, m->workspace, m->workspace_bytes, NULL, &ck_error));
}

static void forward(const model *m)
{
    for (int i = 0; i < LAYERS; i++) {
        const layer *l = &m->layers[i];
        ckconv_args a;
        memset(&a, 0, sizeof a);
        a.in = m->act[i];
        a.out = m->act[i + 1];
        if (NET[i].kind == NORM) {
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

static void backward_norm(const model *m, int i)
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

static void backward_conv(const model *m, int i)
{
    const layer *l = &m->layers[i];
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.dout = m->grad[i + 1];
    if (NET[i].kind == CONV) {
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

static void backward(const model *m)
{
    for (int i = LAYERS - 1; i >= 0; i--) {
        if (NET[i].kind == NORM) {
            backward_norm(m, i);
        } else {
            backward_conv(m, i);
        }
    }
}

/* Softmax cross-entropy of the first `count` images of a batch. Adds to loss and right; with train set,
   leaves the gradient of the mean in the last entry of grad (labels smoothed, unlike in the loss). */
static void softmax_loss(model *m, const unsigned char *label, int count, int train, double *loss, int *right)
{
    const double smooth = 0.05;
    size_t logits = (size_t)m->opt.batch * CLASSES, bytes = logits * ckconv_dtype_size(m->opt.dtype);
    check(ckconv_device_download(&m->device, m->stored, m->act[LAYERS], bytes, &ck_error));
    ckconv_to_double(m->opt.dtype, m->stored, m->values, logits);
    for (int i = 0; i < count; i++) {
        double *row = m->values + i * CLASSES, sum = 0;
        int best = 0;
        for (int k = 1; k < CLASSES; k++) {
            best = row[k] > row[best] ? k : best;
        }
        double top = row[best];
        for (int k = 0; k < CLASSES; k++) {
            row[k] = exp(row[k] - top);
            sum += row[k];
        }
        *loss -= log(row[label[i]] / sum + 1e-300);
        *right += best == label[i];
        for (int k = 0; k < CLASSES; k++) {
            double target = smooth / CLASSES + (k == label[i] ? 1 - smooth : 0);
            row[k] = (row[k] / sum - target) / count;
        }
    }
    if (train) {
        ckconv_from_double(m->opt.dtype, m->values, m->stored, logits);
        check(ckconv_device_upload(&m->device, m->grad[LAYERS], m->stored, bytes, &ck_error));
    }
}

/* Adam with decoupled decay of the weights, cosine learning rate after a short linear rise. */
static void update(model *m)
{
    const double beta1 = 0.9, beta2 = 0.99, decay = 0.05, pi = 3.141592653589793;
    size_t bytes = m->params * sizeof(float);
    check(ckconv_device_download(&m->device, m->host_grad, m->param_grad, bytes, &ck_error));
    double t = (double)++m->step, total = (double)m->steps, rise = 0.05 * total;
    double lr = m->opt.lr * (t < rise ? t / rise : 0.5 + 0.5 * cos(pi * (t - rise) / (total - rise)));
    double unbias1 = 1 / (1 - pow(beta1, t)), unbias2 = 1 / (1 - pow(beta2, t));
    for (int layer_index = 0; layer_index < LAYERS; layer_index++) {
        const layer *l = &m->layers[layer_index];
        double shrink = NET[layer_index].kind == CONV ? 1 - lr * decay : 1;
        size_t end = NET[layer_index].kind == POOL ? l->param : l->param + l->params;
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
    check(ckconv_device_upload(&m->device, m->param, m->host_param, bytes, &ck_error));
}

/* ---- Data ---- */

static int parse_digit(const char *at, unsigned char *pixel, unsigned char *label)
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
static void load_digits(const char *path, digits *train, digits *test)
{
    char text[512];
    int lines = 0;
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
}

/* Write one image as doubles, moved by (dy, dx); what comes in from outside is paper (0). */
static void put_image(double *dst, const unsigned char *pixel, int dy, int dx)
{
    for (int y = 0; y < IMAGE; y++) {
        for (int x = 0; x < IMAGE; x++) {
            int from_y = y - dy, from_x = x - dx;
            int inside = from_y >= 0 && from_y < IMAGE && from_x >= 0 && from_x < IMAGE;
            dst[y * IMAGE + x] = inside ? pixel[from_y * IMAGE + from_x] / 8.0 : 0.0;
        }
    }
}

/* Upload `count` digits as a whole batch: order[0..count) of d, each moved by up to a pixel at random, or
   those from `first` on, unmoved, when order is NULL. Places past count keep old images; nobody reads their
   results. */
static void upload_batch(model *m, const digits *d, const int *order, int first, int count,
                         unsigned char *label)
{
    size_t total = (size_t)m->opt.batch * PIXELS, bytes = total * ckconv_dtype_size(m->opt.dtype);
    for (int i = 0; i < count; i++) {
        int from = order ? order[i] : first + i;
        int dy = order ? rng_below(3) - 1 : 0, dx = order ? rng_below(3) - 1 : 0;
        put_image(m->values + i * PIXELS, d->pixel[from], dy, dx);
        label[i] = d->label[from];
    }
    ckconv_from_double(m->opt.dtype, m->values, m->stored, total);
    check(ckconv_device_upload(&m->device, m->act[0], m->stored, bytes, &ck_error));
}

/* ---- Training ---- */

enum { TRAIN_LOSS, TEST_LOSS, TRAIN_ACCURACY, TEST_ACCURACY, CURVES }; /* accuracies in % */

static void shuffle(int *order, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int j = rng_below(i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

/* One pass over all digits, in batches; training when an order is given, which leaves out the incomplete last
   batch. Returns the number of digits seen. */
static int run_epoch(model *m, const digits *d, const int *order, unsigned char *label, double *mean_loss,
                     double *accuracy)
{
    int right = 0, seen = 0;
    double loss = 0;
    while (seen < d->count) {
        int count = d->count - seen < m->opt.batch ? d->count - seen : m->opt.batch;
        if (order && count < m->opt.batch) {
            break;
        }
        upload_batch(m, d, order ? order + seen : NULL, seen, count, label);
        forward(m);
        softmax_loss(m, label, count, order != NULL, &loss, &right);
        if (order) {
            backward(m);
            update(m);
        }
        seen += count;
    }
    *mean_loss = loss / seen;
    *accuracy = 100.0 * right / seen;
    return seen;
}

/* ---- The curves as a picture ---- */

static void write_curves(const model *m, double *const *curve)
{
    static const double top[] = {90, 92, 94, 96, 98, 100}, all[] = {0, 20, 40, 60, 80, 100};
    double result = curve[TEST_ACCURACY][m->opt.epochs - 1];
    char title[128], test[64];
    snprintf(title, sizeof title, "Handwritten digits: residual network of %lu parameters, %s, seed %d",
             (unsigned long)m->params, ckconv_dtype_name(m->opt.dtype), m->opt.seed);
    snprintf(test, sizeof test, "test, %.2f %% at the end", result);
    svg_chart charts[2];
    memset(charts, 0, sizeof charts);
    charts[0].title = "Cross-entropy loss";
    charts[0].y_label = "loss (log scale)";
    charts[0].log_scale = 1;
    charts[0].name[0] = "training";
    charts[0].name[1] = "test";
    charts[1].title = "Accuracy";
    charts[1].y_label = "correct, %";
    charts[1].ticks = result > 95 ? top : all;
    charts[1].tick_count = 6;
    charts[1].legend_low = 1;
    charts[1].guide = REQUIRED;
    charts[1].guide_name = "required";
    charts[1].name[0] = "training (shifted images)";
    charts[1].name[1] = test;
    for (int i = 0; i < 2; i++) {
        charts[0].value[i] = curve[TRAIN_LOSS + i];
        charts[1].value[i] = curve[TRAIN_ACCURACY + i];
    }
    if (svg_write(m->opt.svg, title, charts, 2, m->opt.epochs)) {
        printf("curves: %s\n", m->opt.svg);
    } else {
        fprintf(stderr, "train_digits: --svg %s: cannot write it\n", m->opt.svg);
    }
}

/* ---- Command line ---- */

static const char HELP[] =
    "train_digits [--epochs 20] [--batch 32] [--lr 0.008] [--seed 1] [--dtype f32|bf16] [--threads 1]\n"
    "             [--engine auto|ref|cpu|gpu] [--data examples/digits.csv] [--svg build/digits.svg]";

static int whole_number(const char *name, const char *text, long low, long high)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < low || value > high) {
        fail(2, "%s %s: must be a whole number from %ld to %ld", name, text, low, high);
    }
    return (int)value;
}

static void parse_option(options *o, const char *name, const char *value)
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
            return;
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
    } else if (strcmp(name, "--svg") == 0) {
        o->svg = value;
    } else {
        fail(2, "%s: unknown option (--help lists them)", name);
    }
}

int main(int argc, char **argv)
{
    options opt = {
        20, 32, 1, 1, 0.008, CKCONV_F32, CKCONV_ENGINE_AUTO, "examples/digits.csv", "build/digits.svg"};
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--help") == 0) {
            puts(HELP);
            return 0;
        }
        if (i + 1 == argc) {
            fail(2, "%s: needs a value (--help lists the options)", argv[i]);
        }
        parse_option(&opt, argv[i], argv[i + 1]);
    }
    digits train = {0, NULL, NULL}, test = {0, NULL, NULL};
    load_digits(opt.data, &train, &test);
    if (train.count < opt.batch || test.count == 0) {
        fail(2, "--data %s: its %d training and %d test digits are too few for --batch %d", opt.data,
             train.count, test.count, opt.batch);
    }
    printf("data: %d digits to train with, %d held out for the test\n", train.count, test.count);
    rng_state = (uint64_t)opt.seed;
    model *m = (model *)host_alloc(1, sizeof(model));
    build_model(m, &opt);
    m->steps = (int64_t)opt.epochs * (train.count / opt.batch);

    double *curve[CURVES];
    for (int i = 0; i < CURVES; i++) {
        curve[i] = (double *)host_alloc((size_t)opt.epochs, sizeof(double));
    }
    int *order = (int *)host_alloc((size_t)train.count, sizeof(int));
    unsigned char *label = (unsigned char *)host_alloc((size_t)opt.batch, 1);
    for (int i = 0; i < train.count; i++) {
        order[i] = i;
    }
    double start = now();
    for (int e = 0; e < opt.epochs; e++) {
        double epoch_start = now();
        shuffle(order, train.count);
        int seen = run_epoch(m, &train, order, label, &curve[TRAIN_LOSS][e], &curve[TRAIN_ACCURACY][e]);
        double rate = seen / (now() - epoch_start);
        run_epoch(m, &test, NULL, label, &curve[TEST_LOSS][e], &curve[TEST_ACCURACY][e]);
        printf("epoch %2d/%d  loss %.4f  train %6.2f %%  test %6.2f %%  %6.0f images/s\n", e + 1, opt.epochs,
               curve[TRAIN_LOSS][e], curve[TRAIN_ACCURACY][e], curve[TEST_ACCURACY][e], rate);
        fflush(stdout);
    }
    double seconds = now() - start, result = curve[TEST_ACCURACY][opt.epochs - 1];
    int wrong = (int)lround(test.count * (100 - result) / 100);
    write_curves(m, curve);
    printf("test accuracy %.2f %% (%d of %d wrong), %.1f seconds\n", result, wrong, test.count, seconds);
    return result >= REQUIRED ? 0 : 1;
}
