/* train_digits_parallel.c - trains the network of train_digits on several ranks at once: each has all of the
   weights and a part of every batch, and the gradients are added over the ranks.

       train_digits_parallel [--transport self|mpi|nccl] [--ranks 1] [--shards 4] [--bucket 16] [--check 20]
                             [--timeout 60] [--die RANK,STEP] [--hang RANK,STEP] [--spoil RANK,STEP]
                             [the options of train_digits, but --svg]
       train_digits_parallel --bench [--transport ...] [--ranks ...] [--batch 64] [--channels 256] [--size 56]
                             [--depth 8] [--steps 20] [--order any|fixed] [--dtype bf16] [--bucket 8192] ...

       mpirun -np 4 build/train_digits_parallel --transport mpi
       for r in 0 1; do RANK=$r WORLD_SIZE=2 build/train_digits_parallel --transport nccl & done; wait

   The lines `epoch ...` are the same, bit for bit, for any number of ranks and any transport, on machines
   with the same device. A batch is cut into shards, whatever the number of ranks; a rank runs its shards one
   after the other, each with the same plans, and what every shard gives is added in one fixed tree
   (parallel.h). With --shards 1 it computes what train_digits does.

   What to copy from here: gradients travel in buckets, from the last layer to the first; a bucket's sum
   begins as soon as the backward pass of the last shard has filled it, and goes on under the rest of that
   pass. Every --check steps all ranks compare a check sum of their weights. --die, --hang and --spoil (a bit
   of a weight turns over) show what happens when a rank is lost or computes something else: all end with a
   message.

   --bench: images/s of a stack of 3x3 convolutions on synthetic images, a whole batch for each rank, weights
   updated on the device. --order fixed adds as above, any with NCCL's own ncclAllReduce.

   Exit status: 0, 2 for bad options or files, 3 for a lost rank, 4 for weights that differ. */
#define _POSIX_C_SOURCE 200809L
#define PROGRAM "train_digits_parallel"
#define DIGITS_EXIT(status) parallel_end(NULL, status, NULL)
#define PARALLEL_IMPLEMENTATION
#include "parallel.h"
#include "digits_net.h"

enum { MAX_SHARDS = 64, MAX_BUCKETS = MAX_LAYERS };

/* Which rank does something at which step, from 1 on; rank -1: none. */
typedef struct fault {
    int rank, step;
} fault;

typedef struct settings {
    options opt;
    parallel_options how;
    int shards, bucket, check, bench;
    int channels, size, depth, steps;
    fault die, hang, spoil;
    digits train, test;
} settings;

/* Gradients that lie side by side, complete when the backward pass has done `layer`. */
typedef struct bucket {
    size_t first, count;
    int layer;
} bucket;

/* Elementwise sums on the device: a 1x1 layer of PARALLEL_ALIGN groups, all weights 1. */
typedef struct addition {
    size_t count;
    ckconv_plan plan;
} addition;

typedef struct trainer {
    const settings *set;
    parallel *p;
    model *m;
    int parts, last_part; /* shards of this rank; the one at work is the last */
    float *grads;         /* on the device: parts vectors of m->params */
    float *sums;          /* the same where sums are computed: grads, or a copy on the host */
    float *ones;          /* on the device */
    bucket buckets[MAX_BUCKETS];
    int bucket_count, next_bucket;
    addition additions[8 * MAX_BUCKETS];
    int addition_count;
    /* what a rank has seen of each shard, in an epoch */
    double loss[MAX_SHARDS];
    int right[MAX_SHARDS];
} trainer;

/* ---- Sums ---- */

/* out = alpha * in + beta * out, count floats, a multiple of PARALLEL_ALIGN */
static void plan_blend(model *m, ckconv_plan *plan, size_t count, double alpha, double beta)
{
    ckconv_conv_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.num_d = 1;
    d.g = PARALLEL_ALIGN;
    d.n = d.k = d.c = d.filter[0] = 1;
    d.input[0] = (int64_t)(count / PARALLEL_ALIGN);
    d.op_out.kind = CKCONV_BILINEAR;
    d.op_out.alpha = alpha;
    d.op_out.beta = beta;
    ckconv_options how = m->how;
    how.max_workspace = -1; /* that of m is in use beside it */
    check(m, ckconv_plan_conv(plan, CKCONV_FWD, &d, &how, &m->device, &m->error));
}

static void blend(trainer *t, const ckconv_plan *plan, float *out, const float *in, void *stream)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.wei = t->ones;
    a.out = out;
    a.d[0] = out;
    check(t->m, ckconv_run(plan, &a, NULL, 0, stream, &t->m->error));
}

static void add_on_device(void *user, float *sum, const float *other, size_t count, void *stream)
{
    trainer *t = (trainer *)user;
    int i = 0;
    while (i < t->addition_count && t->additions[i].count != count) {
        i++;
    }
    if (i == t->addition_count) {
        if (i == (int)(sizeof t->additions / sizeof t->additions[0])) {
            fail(2, "too many sizes of sums");
        }
        plan_blend(t->m, &t->additions[i].plan, count, 1, 1);
        t->additions[i].count = count;
        t->addition_count++;
    }
    blend(t, &t->additions[i].plan, sum, other, stream);
}

/* From the last layer to the first; a bucket ends when it is large enough. */
static void fill_buckets(trainer *t)
{
    const model *m = t->m;
    size_t end = m->params;
    for (int i = m->layer_count - 1; i >= 0; i--) {
        if (m->net[i].kind == POOL) {
            continue;
        }
        const size_t first = m->layers[i].param;
        if ((end - first) * sizeof(float) >= (size_t)t->set->bucket * 1024 || first == 0) {
            bucket *b = &t->buckets[t->bucket_count++];
            b->first = first;
            b->count = end - first;
            b->layer = i;
            end = first;
        }
    }
}

static size_t largest_bucket(const trainer *t)
{
    size_t largest = 0;
    for (int i = 0; i < t->bucket_count; i++) {
        largest = t->buckets[i].count > largest ? t->buckets[i].count : largest;
    }
    return largest;
}

/* The backward pass has done a layer: begin the sum of the bucket that this completes. */
static void after_layer(void *user, int index)
{
    trainer *t = (trainer *)user;
    if (!t->last_part || t->next_bucket == t->bucket_count || t->buckets[t->next_bucket].layer != index) {
        return;
    }
    const bucket *b = &t->buckets[t->next_bucket++];
    for (int i = 0; t->sums != t->grads && i < t->parts; i++) {
        const size_t at = (size_t)i * t->m->params + b->first;
        download(t->m, t->sums + at, t->grads + at, b->count * sizeof(float));
    }
    parallel_sum(t->p, t->sums + b->first, t->m->params, t->parts, b->count, NULL);
}

/* ---- A rank's model ---- */

static void build_trainer(trainer *t, const layer_spec *net, int layers, int image, int image_channels)
{
    const settings *set = t->set;
    model *m = t->m = (model *)host_alloc(1, sizeof(model));
    const int ranks = parallel_ranks(t->p), shards = set->bench ? ranks : set->shards;
    t->parts = shards / ranks;
    m->net = net;
    m->layer_count = layers;
    m->image = image;
    m->image_channels = image_channels;
    m->batch = set->bench ? set->opt.batch : set->opt.batch / shards;
    m->whole = m->batch * shards;
    m->gpu = parallel_local_rank(t->p);
    m->align = PARALLEL_ALIGN;
    m->after = after_layer;
    m->user = t;
    build_model(m, &set->opt);
    const size_t floats = (size_t)t->parts * m->params;
    const int gpu = m->device.kind != CKCONV_DEVICE_CPU;
    float one[PARALLEL_ALIGN];
    for (int i = 0; i < PARALLEL_ALIGN; i++) {
        one[i] = 1;
    }
    t->ones = (float *)device_alloc(m, sizeof one);
    upload(m, t->ones, one, sizeof one);
    t->grads = (float *)device_alloc(m, floats * sizeof(float));
    t->sums = gpu && !parallel_on_device(t->p) ? (float *)host_alloc(floats, sizeof(float)) : t->grads;
    fill_buckets(t);
    if (parallel_on_device(t->p) && !gpu) {
        fail(2, "--transport nccl: needs a GPU (make GPU=cuda or GPU=hip; --engine gpu)");
    }
    parallel_use_device(t->p, m->device.kind == CKCONV_DEVICE_AMD, add_on_device, t, largest_bucket(t));
}

static void check_weights(trainer *t, const float *weights)
{
    parallel_agree(t->p, parallel_digest(weights, t->m->params * sizeof(float)), "the weights");
}

/* Faults that the command line asks for. */
static void do_faults(trainer *t, int64_t step)
{
    const settings *s = t->set;
    const int rank = parallel_rank(t->p);
    if (rank == s->die.rank && step == s->die.step) {
        parallel_die(t->p);
    }
    while (rank == s->hang.rank && step == s->hang.step) {
        pause();
    }
    if (rank == s->spoil.rank && step == s->spoil.step) {
        uint32_t bits;
        memcpy(&bits, t->m->host_param, sizeof bits);
        bits ^= 1u << 16; /* an error of the last bit may be rounded away again */
        memcpy(t->m->host_param, &bits, sizeof bits);
        upload(t->m, t->m->param, t->m->host_param, sizeof bits);
    }
}

/* ---- Training on digits ---- */

/* The shards of this rank, of a batch whose images begin at `seen`. */
static void run_shards(trainer *t, const digits *d, const int *order, const shift *shifts, int seen,
                       int count, unsigned char *label)
{
    model *m = t->m;
    for (int i = 0; i < t->parts; i++) {
        const int shard = parallel_rank(t->p) * t->parts + i, first = shard * m->batch;
        const int here = count - first < m->batch ? count - first : m->batch;
        if (here <= 0) {
            continue; /* the last images of the test */
        }
        upload_batch(m, d, order ? order + seen + first : NULL, shifts + first, seen + first, here, label);
        forward(m);
        softmax_loss(m, label, here, order != NULL, &t->loss[shard], &t->right[shard]);
        if (order) {
            m->param_grad = t->grads + (size_t)i * m->params;
            t->last_part = i == t->parts - 1;
            t->next_bucket = 0;
            backward(m);
        }
    }
}

/* What all ranks saw of an epoch: the sums over the shards, in their order. */
static void gather_epoch(trainer *t, double *loss, int *right)
{
    double all[2 * MAX_SHARDS];
    const int rank = parallel_rank(t->p), first = rank * t->parts;
    for (int i = 0; i < t->parts; i++) {
        all[2 * (first + i)] = t->loss[first + i];
        all[2 * (first + i) + 1] = t->right[first + i];
    }
    parallel_gather(t->p, all, 2 * sizeof(double) * (size_t)t->parts);
    *loss = 0;
    *right = 0;
    for (int i = 0; i < t->set->shards; i++) {
        *loss += all[2 * i];
        *right += (int)all[2 * i + 1];
    }
    memset(t->loss, 0, sizeof t->loss);
    memset(t->right, 0, sizeof t->right);
}

static int run_epoch(trainer *t, const digits *d, const int *order, shift *shifts, unsigned char *label,
                     double *mean_loss, double *accuracy)
{
    model *m = t->m;
    int right, seen = 0;
    while (seen < d->count) {
        const int left = d->count - seen, count = left < m->whole ? left : m->whole;
        if (order && count < m->whole) {
            break;
        }
        if (order) {
            parallel_at(t->p, m->step + 1);
            do_faults(t, m->step + 1);
            draw_shifts(m, shifts, count); /* of the whole batch, as all ranks do */
        }
        run_shards(t, d, order, shifts, seen, count, label);
        if (order) {
            parallel_wait(t->p);
            if (parallel_on_device(t->p)) {
                download(m, m->host_grad, t->sums, m->params * sizeof(float));
            } else {
                memcpy(m->host_grad, t->sums, m->params * sizeof(float));
            }
            update(m);
            if (m->step % t->set->check == 0) {
                check_weights(t, m->host_param);
            }
        }
        seen += count;
    }
    gather_epoch(t, mean_loss, &right);
    *mean_loss /= seen;
    *accuracy = 100.0 * right / seen;
    return seen;
}

static void train(trainer *t)
{
    const settings *set = t->set;
    const digits *digits_in = &set->train, *digits_out = &set->test;
    const int talks = parallel_rank(t->p) == 0, count = digits_in->count;
    build_trainer(t, DIGITS_NET, DIGITS_LAYERS, IMAGE, 1);
    model *m = t->m;
    m->steps = (int64_t)set->opt.epochs * (count / m->whole);
    if (talks) {
        printf("network: %d layers, %lu parameters; engine %s, dtype %s\n", m->layer_count,
               (unsigned long)m->trained, ckconv_engine_name(m->layers[0].fwd.engine),
               ckconv_dtype_name(set->opt.dtype));
        printf("%d rank%s, %d shard%s of %d images each, %d buckets\n", parallel_ranks(t->p),
               parallel_ranks(t->p) == 1 ? "" : "s", t->parts, t->parts == 1 ? "" : "s", m->batch,
               t->bucket_count);
    }
    int *order = (int *)host_alloc((size_t)count, sizeof(int));
    shift *shifts = (shift *)host_alloc((size_t)m->whole, sizeof(shift));
    unsigned char *label = (unsigned char *)host_alloc((size_t)m->batch, 1);
    for (int i = 0; i < count; i++) {
        order[i] = i;
    }
    double images = 0, seconds = 0;
    for (int e = 0; e < set->opt.epochs; e++) {
        double loss, accuracy, test_loss, test_accuracy, start = now();
        shuffle(m, order, count);
        images += run_epoch(t, digits_in, order, shifts, label, &loss, &accuracy);
        seconds += now() - start;
        run_epoch(t, digits_out, NULL, shifts, label, &test_loss, &test_accuracy);
        if (talks) {
            printf("epoch %2d/%d  loss %.17g  train %6.2f %%  test %.17g, %6.2f %%  weights %016llx\n", e + 1,
                   set->opt.epochs, loss, accuracy, test_loss, test_accuracy,
                   (unsigned long long)parallel_digest(m->host_param, m->params * sizeof(float)));
            fflush(stdout);
        }
    }
    check_weights(t, m->host_param);
    if (talks) {
        printf("%.0f images/s, %.1f seconds\n", images / seconds, seconds);
    }
}

/* ---- Speed ---- */

/* A stem, `depth` residual blocks of group norm, silu and a 3x3 convolution, the mean over the image in two
   steps, a linear head. */
static int bench_net(const settings *set, layer_spec *net)
{
    const int c = set->channels, part = set->size % 8 == 0 ? 8 : set->size;
    const layer_spec stem = {"stem 3x3", CONV, 1, c, 3, 1, 0}, norm = {"norm silu", NORM, 32, c, 0, 0, 0},
                     conv = {"3x3 + skip", CONV, 1, c, 3, 1, 2}, pool = {"pool", POOL, c, c, part, part, 0},
                     whole = {"pool", POOL, c, c, set->size / part, set->size / part, 0},
                     head = {"head", CONV, 1, CLASSES, 1, 1, 0};
    int count = 0;
    net[count++] = stem;
    for (int i = 0; i < set->depth; i++) {
        net[count++] = norm;
        net[count++] = conv;
    }
    net[count++] = norm;
    net[count++] = pool;
    if (part != set->size) {
        net[count++] = whole;
    }
    net[count++] = head;
    return count;
}

/* Forward, backward with sums beside it, plain gradient descent on the device. Returns the loss of this
   rank's images. */
static double bench_step(trainer *t, const unsigned char *label, const ckconv_plan *descent)
{
    model *m = t->m;
    double loss = 0;
    int right = 0;
    forward(m);
    softmax_loss(m, label, m->batch, 1, &loss, &right);
    m->param_grad = t->grads;
    t->last_part = 1;
    t->next_bucket = 0;
    backward(m);
    parallel_wait(t->p);
    if (t->sums != t->grads) {
        upload(m, t->grads, t->sums, m->params * sizeof(float));
    }
    blend(t, descent, m->param, t->grads, NULL);
    m->step++;
    return loss / m->batch;
}

static void bench(trainer *t)
{
    enum { WARM = 5 };
    const settings *set = t->set;
    const int talks = parallel_rank(t->p) == 0, ranks = parallel_ranks(t->p);
    layer_spec net[MAX_LAYERS];
    build_trainer(t, net, bench_net(set, net), set->size, 3);
    model *m = t->m;
    ckconv_plan descent;
    plan_blend(m, &descent, m->params, -set->opt.lr, 1);
    if (talks) {
        printf("bench: %d rank%s of %d images %d x %d, %d convolutions of %d channels, %lu parameters, %s, "
               "%d buckets\n",
               ranks, ranks == 1 ? "" : "s", m->batch, set->size, set->size, set->depth, set->channels,
               (unsigned long)m->trained, ckconv_dtype_name(set->opt.dtype), t->bucket_count);
    }
    /* images of this rank's own: noise, brighter in the channel that the label names */
    unsigned char *label = (unsigned char *)host_alloc((size_t)m->batch, 1);
    const size_t pixels = image_values(m);
    m->rng += (uint64_t)parallel_rank(t->p) * 1000003u;
    for (int i = 0; i < m->batch; i++) {
        label[i] = (unsigned char)rng_below(m, CLASSES);
        for (size_t j = 0; j < pixels; j++) {
            m->values[(size_t)i * pixels + j] = rng_uniform(m) + ((int)(j % 3) == label[i] % 3 ? 0.5 : 0);
        }
    }
    upload_values(m);
    double first = 0, last = 0, start = 0;
    for (int i = 0; i < WARM + set->steps; i++) {
        if (i == WARM) {
            check(m, ckconv_device_synchronise(&m->device, &m->error));
            parallel_agree(t->p, (uint64_t)m->step, "the steps"); /* all begin here */
            start = now();
        }
        parallel_at(t->p, i + 1);
        do_faults(t, i + 1);
        last = bench_step(t, label, &descent);
        first = i == 0 ? last : first;
    }
    check(m, ckconv_device_synchronise(&m->device, &m->error));
    parallel_agree(t->p, (uint64_t)m->step, "the steps");
    const double seconds = now() - start;
    double losses[2 * MAX_SHARDS], mean[2] = {0, 0};
    losses[2 * parallel_rank(t->p)] = first;
    losses[2 * parallel_rank(t->p) + 1] = last;
    parallel_gather(t->p, losses, 2 * sizeof(double));
    for (int i = 0; i < 2 * ranks; i++) {
        mean[i % 2] += losses[i] / ranks;
    }
    download(m, m->host_param, m->param, m->params * sizeof(float));
    check_weights(t, m->host_param);
    if (talks) {
        printf("loss %.6f -> %.6f, weights %016llx\n", mean[0], mean[1],
               (unsigned long long)parallel_digest(m->host_param, m->params * sizeof(float)));
        printf("%.1f images/s, %.3f ms a step\n", (double)ranks * m->batch * set->steps / seconds,
               1e3 * seconds / set->steps);
    }
}

static int rank_main(parallel *p, void *user)
{
    const settings *set = (const settings *)user;
    trainer *t = (trainer *)host_alloc(1, sizeof(trainer));
    t->set = set;
    t->p = p;
    if (!set->bench && (set->shards % parallel_ranks(p) != 0 || set->opt.batch % set->shards != 0)) {
        fail(2, "--shards %d: must be a multiple of the %d ranks, and --batch %d one of it", set->shards,
             parallel_ranks(p), set->opt.batch);
    }
    if (set->bench) {
        bench(t);
    } else {
        train(t);
    }
    return 0;
}

/* ---- Command line ---- */

static const char HELP[] =
    "train_digits_parallel [--transport self|mpi|nccl] [--ranks 1] [--shards 4] [--bucket KIB] [--check 20]\n"
    "    [--timeout 60] [--die RANK,STEP] [--hang RANK,STEP] [--spoil RANK,STEP] [--epochs 20] [--batch 32]\n"
    "    [--lr 0.008] [--seed 1] [--dtype f32|bf16] [--threads 1] [--engine auto|ref|cpu|gpu] [--data FILE]\n"
    "train_digits_parallel --bench [--channels 256] [--size 56] [--depth 8] [--steps 20] [--order any|fixed] "
    "...";

static fault parse_fault(const char *name, const char *value)
{
    char rank[16];
    const char *comma = strchr(value, ',');
    const size_t length = comma != NULL ? (size_t)(comma - value) : 0;
    if (length == 0 || length >= sizeof rank) {
        fail(2, "%s %s: must be RANK,STEP", name, value);
    }
    memcpy(rank, value, length);
    rank[length] = '\0';
    fault f;
    f.rank = whole_number(name, rank, 0, 1023);
    f.step = whole_number(name, comma + 1, 1, 1000000000);
    return f;
}

static void parse_option(settings *s, const char *name, const char *value)
{
    static const char *const kinds[] = {"self", "mpi", "nccl"};
    const struct {
        const char *name;
        int *place;
        long low, high;
    } numbers[] = {{"--ranks", &s->how.ranks, 1, MAX_SHARDS},
                   {"--shards", &s->shards, 1, MAX_SHARDS},
                   {"--bucket", &s->bucket, 0, 1048576},
                   {"--check", &s->check, 1, 1000000},
                   {"--channels", &s->channels, 32, 4096},
                   {"--size", &s->size, 1, 1024},
                   {"--depth", &s->depth, 1, (MAX_LAYERS - 5) / 2},
                   {"--steps", &s->steps, 1, 1000000}};
    const struct {
        const char *name;
        fault *place;
    } faults[] = {{"--die", &s->die}, {"--hang", &s->hang}, {"--spoil", &s->spoil}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].place = whole_number(name, value, numbers[i].low, numbers[i].high);
            return;
        }
    }
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (strcmp(name, faults[i].name) == 0) {
            *faults[i].place = parse_fault(name, value);
            return;
        }
    }
    if (strcmp(name, "--timeout") == 0) {
        s->how.timeout = whole_number(name, value, 1, 86400);
    } else if (strcmp(name, "--transport") == 0) {
        int kind = 0;
        while (kind < 3 && strcmp(value, kinds[kind]) != 0) {
            kind++;
        }
        if (kind == 3) {
            fail(2, "--transport %s: must be self, mpi or nccl", value);
        }
        s->how.kind = (parallel_kind)kind;
    } else if (strcmp(name, "--order") == 0) {
        s->how.any_order = strcmp(value, "any") == 0;
        if (!s->how.any_order && strcmp(value, "fixed") != 0) {
            fail(2, "--order %s: must be any or fixed", value);
        }
    } else if (!parse_shared_option(&s->opt, name, value)) {
        fail(2, "%s: unknown option (--help lists them)", name);
    }
}

int main(int argc, char **argv)
{
    const options defaults = DIGITS_DEFAULTS;
    const fault none = {-1, 0};
    settings s;
    memset(&s, 0, sizeof s);
    s.opt = defaults;
    s.how.name = PROGRAM;
    s.shards = 4;
    s.bucket = 16;
    s.check = 20;
    s.channels = 256;
    s.size = 56;
    s.depth = 8;
    s.steps = 20;
    s.die = s.hang = s.spoil = none;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            puts(HELP);
            return 0;
        }
        if (strcmp(argv[i], "--bench") == 0) {
            s.bench = s.how.any_order = 1;
            s.opt.batch = 64;
            s.opt.dtype = CKCONV_BF16;
            s.bucket = 8192;
        }
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0) {
            continue;
        }
        if (i + 1 == argc) {
            fail(2, "%s: needs a value (--help lists the options)", argv[i]);
        }
        parse_option(&s, argv[i], argv[i + 1]);
        i++;
    }
    if ((s.shards & (s.shards - 1)) != 0) {
        fail(2, "--shards %d: must be a power of two", s.shards);
    }
    if (s.channels % 32 != 0) {
        fail(2, "--channels %d: must be a multiple of 32", s.channels);
    }
    if (!s.bench) {
        load_digits(&s.opt, &s.train, &s.test);
    }
    return parallel_run(&s.how, rank_main, &s);
}
