/* example.h - what the example programs share: arguments, tensors, fills, timing, verification
   SPDX-License-Identifier: MIT

   Each program includes this header, plans and runs one operation with ckconv.h, and is linked with one
   object that holds the implementation. Memory, copies and times go through the device helpers of ckconv.h:
   the same sources run on a GPU when there is one that ckconv computes on, and on the CPU otherwise.

   Exit status: 0 done (and verified, unless verify is 0) or help was asked for; 1 a mismatch, a problem
   that is not supported, or no memory; 2 arguments that do not fit.

   Functions that can fail return a ckconv_status: 0 is success, so a chain of calls joined by || stops at
   the first error.

   Contents: 1 arguments, 2 device and batch, 3 tensors, 4 time, 5 verification, 6 the clients' routine. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include "ckconv.h"
#include "gpu.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EX_OK = 0, EX_FAILED = 1, EX_BAD_ARGUMENTS = 2, EX_MAX_PROBLEM = 32 };


/*------------------------------------------------------------------------------------------------------------
  1. Arguments: verify init time [problem]
*/
typedef struct ex_options {
    int verify; /* 0 or 1 */
    int init;   /* 0 zeros, 1 integers -5..4, 2 uniform reals */
    int time;   /* 0 one run, 1 default repeats, n > 1: n runs */
    int given;  /* problem numbers on the command line, 0: the default problem */
    int64_t problem[EX_MAX_PROBLEM];
} ex_options;

/* Help on a convolution's problem; G in brackets where it may be left out. */
#define EX_CONV_HELP(G)                                                                                      \
    "problem: ndim (1|2|3), " G ", N, K, C, [Z,] [Y,] X, [Di,] [Hi,] Wi, S[z,] [Sy,] Sx,\n"                  \
    "         [Dz,] [Dy,] Dx, [LeftPz,] [LeftPy,] LeftPx, [RightPz,] [RightPy,] RightPx\n"                   \
    "         (groups, batch, output and input channels per group, filter, input, strides, dilations,\n"     \
    "         pads before, pads after)\n"

static inline int ex_number(const char *text, int64_t *value)
{
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    *value = number;
    return errno == 0 && end != text && *end == '\0';
}

static inline void ex_help(FILE *file, const char *program, const char *problem_help)
{
    fprintf(file,
            "usage: %s [verify init time [problem]]\n"
            "verify:  0 no, 1 yes (default 1)\n"
            "init:    0 zeros, 1 integers -5..4, 2 uniform reals (default 1)\n"
            "time:    0 one run, 1 timed with the default repeats, n > 1 timed with n runs (default 1)\n"
            "%s"
            "exit:    0 ok, 1 mismatch or unsupported problem, 2 arguments that do not fit\n",
            program, problem_help);
}

/* Read all arguments; numbers: how many make a problem, 0: the caller looks. Returns -1 to go on, else the
   exit status (the help has been printed). */
static inline int ex_parse(int argc, char **argv, const char *problem_help, int numbers, ex_options *options)
{
    memset(options, 0, sizeof *options);
    options->verify = options->init = options->time = 1;
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            ex_help(stdout, argv[0], problem_help);
            return EX_OK;
        }
    }
    int64_t value[3 + EX_MAX_PROBLEM] = {1, 1, 1};
    int fits = argc == 1 || (argc >= 4 && argc <= 4 + EX_MAX_PROBLEM);
    for (int i = 1; i < argc && fits; ++i) {
        fits = ex_number(argv[i], &value[i - 1]);
    }
    fits = fits && value[0] >= 0 && value[0] <= 1 && value[1] >= 0 && value[1] <= 2;
    fits = fits && value[2] >= 0 && value[2] <= 1000000;
    if (!fits || (numbers > 0 && argc > 4 && argc != 4 + numbers)) {
        ex_help(stderr, argv[0], problem_help);
        return EX_BAD_ARGUMENTS;
    }
    options->verify = (int)value[0];
    options->init = (int)value[1];
    options->time = (int)value[2];
    options->given = argc > 4 ? argc - 4 : 0;
    memcpy(options->problem, value + 3, sizeof options->problem);
    return -1;
}

/* A convolution's problem out of its numbers. Returns how many it took, 0 if they do not fit. */
static inline int ex_conv_numbers(const int64_t *number, int count, ckconv_conv_desc *desc)
{
    const int64_t ndim = count > 0 ? number[0] : 0;
    if (ndim < 1 || ndim > 3 || count < 5 + 6 * ndim) {
        return 0;
    }
    memset(desc, 0, sizeof *desc);
    desc->ndim = (int32_t)ndim;
    desc->g = number[1];
    desc->n = number[2];
    desc->k = number[3];
    desc->c = number[4];
    int64_t *const spatial[6] = {desc->filter,   desc->input,  desc->stride,
                                 desc->dilation, desc->pad_lo, desc->pad_hi};
    for (int64_t i = 0; i < 6 * ndim; ++i) {
        spatial[i / ndim][i % ndim] = number[5 + i];
    }
    return (int)(5 + 6 * ndim);
}

/* Arguments of a program with one convolution. standard: the default problem; g_optional: G may be left out.
   Returns as ex_parse. */
static inline int ex_parse_conv(int argc, char **argv, const int64_t *standard, int g_optional,
                                ex_options *options, ckconv_conv_desc *desc)
{
    const char *const help = g_optional ? EX_CONV_HELP("[G]") : EX_CONV_HELP("G");
    const int status = ex_parse(argc, argv, help, 0, options);
    if (status >= 0) {
        return status;
    }
    int64_t *const problem = options->problem;
    if (options->given == 0) {
        ex_conv_numbers(standard, EX_MAX_PROBLEM, desc);
        return -1;
    }
    if (g_optional && problem[0] >= 1 && problem[0] <= 3 && options->given == 4 + 6 * problem[0]) {
        memmove(problem + 2, problem + 1, (size_t)(options->given - 1) * sizeof *problem);
        problem[1] = 1;
        options->given += 1;
    }
    if (ex_conv_numbers(problem, options->given, desc) != options->given) {
        ex_help(stderr, argv[0], help);
        return EX_BAD_ARGUMENTS;
    }
    return -1;
}

/* Host memory, zeroed; a program without memory ends here. */
static inline void *ex_alloc(int64_t count, size_t size)
{
    void *memory = calloc(count > 0 ? (size_t)count : 1, size > 0 ? size : 1);
    if (memory == NULL) {
        fprintf(stderr, "out of memory: %" PRId64 " elements of %zu bytes\n", count, size);
        exit(EX_FAILED);
    }
    return memory;
}

static inline int ex_fail(const ckconv_error *err)
{
    fprintf(stderr, "%s: %s\n", ckconv_status_text(err->status), err->text);
    return EX_FAILED;
}


/*------------------------------------------------------------------------------------------------------------
  2. Device and batch
*/
static inline ckconv_status ex_open_device(ckconv_device *device, ckconv_error *err)
{
    if (example_has_gpu()) {
        const ckconv_status status = ckconv_device_gpu(0, device, err);
        return status != CKCONV_OK ? status : ckconv_device_open(device, err);
    }
    ckconv_device_cpu(device);
    return CKCONV_OK;
}

/* A cautious guess of what the fast CPU engine computes per second. */
static inline double ex_cpu_flops(const ckconv_device *device)
{
    const int32_t threads = device->threads > 0 ? device->threads : 1;
    return (double)threads * ((device->features & CKCONV_CPU_AVX512) != 0 ? 50e9
                              : (device->features & CKCONV_CPU_AVX2) != 0 ? 20e9
                                                                          : 1.5e9);
}

/* Runs that a program does at least: warm-up, timed run(s), another instance to compare with. */
static inline double ex_runs(const ex_options *options)
{
    return options->time > 1 ? 2.0 + options->time : 3.0;
}

/* On a CPU: the batch for which a program that does `runs` runs ends within about 10 s, and a line that
   says so when it is smaller. flop and bytes are those of the whole batch; fills and checks take time per
   byte. Never below 1. */
static inline int64_t ex_cut_batch(const ckconv_device *device, int64_t batch, double flop, double bytes,
                                   double runs)
{
    const double seconds = runs * flop / ex_cpu_flops(device) + bytes * 1e-8;
    const double allowed = 6; /* leaves time for repeats and checks */
    if (device->kind != CKCONV_DEVICE_CPU || batch <= 1 || seconds <= allowed) {
        return batch;
    }
    const int64_t cut = (int64_t)((double)batch * allowed / seconds);
    const int64_t kept = cut < 1 ? 1 : cut;
    printf("CPU: batch %" PRId64 " cut to %" PRId64 " so that this ends within about 10 s\n", batch, kept);
    return kept;
}

/* ckconv_plan_conv for the batch that ex_cut_batch allows. */
static inline ckconv_status ex_plan_conv(ckconv_plan *plan, ckconv_op op, ckconv_conv_desc *desc,
                                         const ckconv_options *options, const ckconv_device *device,
                                         double runs, ckconv_error *err)
{
    const ckconv_status status = ckconv_plan_conv(plan, op, desc, options, device, err);
    if (status != CKCONV_OK) {
        return status;
    }
    desc->n = ex_cut_batch(device, desc->n, (double)plan->flop, (double)plan->bytes, runs);
    return ckconv_plan_conv(plan, op, desc, options, device, err);
}


/*------------------------------------------------------------------------------------------------------------
  3. Tensors
*/
typedef struct ex_tensor {
    ckconv_device device;
    ckconv_tensor_info info;
    void *host, *memory; /* memory: what the device reads and writes */
    char name[32];       /* "in_n_c_hi_wi" */
} ex_tensor;

/* "in", {G, N, C, H, W} -> "in_n_c_hi_wi"; the group stays in the name when there are several. */
static inline void ex_name(ex_tensor *tensor, const ckconv_plan *plan, int32_t which, const char *prefix)
{
    static const char *const spatial[3][3] = {
        {"_di", "_hi", "_wi"}, {"_z", "_y", "_x"}, {"_do", "_ho", "_wo"}};
    const int rank = tensor->info.rank;
    const char *leading = "_g_n_c";
    int kind = 0;
    if (which == CKCONV_TENSOR_CHANNEL || which == CKCONV_TENSOR_STAT) {
        snprintf(tensor->name, sizeof tensor->name, "%s%s", prefix,
                 which == CKCONV_TENSOR_STAT ? "_n_g" : "_g_c");
        return;
    }
    if (which == CKCONV_TENSOR_WEI || which == CKCONV_TENSOR_WEI1) {
        kind = 1;
        leading = "_g_k_c";
    } else if (which == CKCONV_TENSOR_OUT && plan->op < CKCONV_GROUPNORM_FWD) {
        kind = 2;
        leading = "_g_n_k";
    }
    snprintf(tensor->name, sizeof tensor->name, "%s%s", prefix,
             leading + (tensor->info.length[0] == 1 ? 2 : 0));
    for (int i = 6 - rank; i < 3; ++i) {
        const size_t used = strlen(tensor->name);
        snprintf(tensor->name + used, sizeof tensor->name - used, "%s", spatial[kind][i]);
    }
}

/* in_n_c_hi_wi: dim 4, lengths {128, 128, 71, 71}, strides {645248, 1, 9088, 128} */
static inline void ex_print_tensor(const ex_tensor *tensor)
{
    const ckconv_tensor_info *info = &tensor->info;
    const int first = info->rank > 3 && info->length[0] == 1 ? 1 : 0; /* a single group is not shown */
    printf("%s: dim %d, lengths {", tensor->name, info->rank - first);
    for (int i = first; i < info->rank; ++i) {
        printf("%s%" PRId64, i == first ? "" : ", ", info->length[i]);
    }
    printf("}, strides {");
    for (int i = first; i < info->rank; ++i) {
        printf("%s%" PRId64, i == first ? "" : ", ", info->stride[i]);
    }
    printf("}\n");
}

/* Memory for one tensor of a plan, on the host and on the plan's device; prints its descriptor. */
static inline ckconv_status ex_tensor_open(ex_tensor *tensor, const ckconv_plan *plan, int32_t which,
                                           const char *prefix, ckconv_error *err)
{
    memset(tensor, 0, sizeof *tensor);
    tensor->device = plan->device;
    const ckconv_status status = ckconv_plan_tensor(plan, which, &tensor->info, err);
    if (status != CKCONV_OK) {
        return status;
    }
    const size_t bytes = tensor->info.bytes > 0 ? (size_t)tensor->info.bytes : 1;
    tensor->host = ex_alloc((int64_t)bytes, 1);
    tensor->memory = ckconv_device_alloc(&tensor->device, bytes, err);
    if (tensor->memory == NULL) {
        return CKCONV_ERR_MEMORY;
    }
    ex_name(tensor, plan, which, prefix);
    ex_print_tensor(tensor);
    return CKCONV_OK;
}

static inline void ex_tensor_close(ex_tensor *tensor)
{
    free(tensor->host);
    ckconv_device_free(&tensor->device, tensor->memory);
}

/* splitmix64: small, seeded by the position, the same numbers everywhere */
static inline uint64_t ex_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Values by the init argument (uniform reals: lo <= x < hi) on the host, then on the device. */
static inline ckconv_status ex_fill(ex_tensor *tensor, int init, double lo, double hi, ckconv_error *err)
{
    const ckconv_tensor_info *info = &tensor->info;
    const size_t size = ckconv_dtype_size(info->dtype);
    uint64_t state = 0;
    for (const char *c = tensor->name; *c != '\0'; ++c) {
        state = state * 31 + (uint64_t)(unsigned char)*c; /* each tensor its own numbers */
    }
    double value[512];
    for (int64_t i = 0; i < info->count; i += 512) {
        const int64_t left = info->count - i;
        const size_t count = left < 512 ? (size_t)left : 512;
        for (size_t j = 0; j < count; ++j) {
            const uint64_t bits = ex_random(&state) >> 11;
            const double real = lo + (hi - lo) * ((double)bits / 9007199254740992.0);
            value[j] = init == 0 ? 0 : init == 1 ? (double)(bits % 10) - 5 : real;
        }
        ckconv_from_double(info->dtype, value, (char *)tensor->host + (size_t)i * size, count);
    }
    return ckconv_device_upload(&tensor->device, tensor->memory, tensor->host, (size_t)info->bytes, err);
}

/* NaN (or an unlikely integer) everywhere: what a run leaves out then fails the verification. */
static inline ckconv_status ex_poison(ex_tensor *tensor, ckconv_error *err)
{
    return ckconv_device_fill(&tensor->device, tensor->memory, 0xFF, (size_t)tensor->info.bytes, err);
}

static inline ckconv_status ex_download(ex_tensor *tensor, ckconv_error *err)
{
    return ckconv_device_download(&tensor->device, tensor->host, tensor->memory, (size_t)tensor->info.bytes,
                                  err);
}

/* Workspace of a plan: NULL when it needs none. */
static inline ckconv_status ex_workspace(const ckconv_plan *plan, void **workspace, ckconv_error *err)
{
    *workspace = NULL;
    if (plan->workspace_bytes > 0) {
        *workspace = ckconv_device_alloc(&plan->device, (size_t)plan->workspace_bytes, err);
        return *workspace != NULL ? CKCONV_OK : CKCONV_ERR_MEMORY;
    }
    return CKCONV_OK;
}


/*------------------------------------------------------------------------------------------------------------
  4. Time
*/
static inline void ex_print_plan(const ckconv_plan *plan)
{
    const ckconv_family family = ckconv_instance_family(plan->instance);
    printf("instance: %s (%s, %s on %s), split_k %d, workspace %" PRId64 " bytes\n",
           ckconv_instance_name(plan->instance), ckconv_engine_name(plan->engine), ckconv_family_name(family),
           plan->device.arch, (int)plan->split_k, plan->workspace_bytes);
    printf("launch_and_time_kernel: grid_dim {%" PRId64 ", %" PRId64 ", %" PRId64 "}, ", plan->grid[0],
           plan->grid[1], plan->grid[2]);
    printf("block_dim {%d, %d, %d}, launches %d\n", (int)plan->block[0], (int)plan->block[1],
           (int)plan->block[2], (int)plan->launches);
}

/* Mean seconds of the runs that the time argument asks for. The default on a GPU is 50 after 5 to warm up; on
   a CPU as many as fit in a second, 50 at most, after one, and that one itself when it takes longer. */
static inline ckconv_status ex_time(const ckconv_plan *plan, const ckconv_args *args, void *workspace,
                                    int how, double *seconds, ckconv_error *err)
{
    const int cpu = plan->device.kind == CKCONV_DEVICE_CPU;
    const size_t bytes = (size_t)plan->workspace_bytes;
    ckconv_timer timer;
    ckconv_status status = ckconv_timer_create(&plan->device, &timer, err);
    int repeats = how < 1 ? 1 : how > 1 ? how : 50;
    if (status == CKCONV_OK && how > 0) {
        printf("Warm up\n");
        ckconv_timer_start(&plan->device, &timer, NULL);
        for (int i = 0; i < (cpu ? 1 : 5) && status == CKCONV_OK; ++i) {
            status = ckconv_run(plan, args, workspace, bytes, NULL, err);
        }
        ckconv_timer_stop(&plan->device, &timer, NULL);
        *seconds = ckconv_timer_seconds(&plan->device, &timer);
        if (cpu && how == 1 && *seconds * 50 > 1) {
            repeats = (int)(1 / *seconds);
        }
    }
    if (status == CKCONV_OK && repeats == 0) {
        printf("Start running 1 times... (that was it: more than a second)\n");
        ckconv_timer_destroy(&plan->device, &timer);
    } else if (status == CKCONV_OK) {
        printf("Start running %d times...\n", repeats);
        fflush(stdout);
        ckconv_timer_start(&plan->device, &timer, NULL);
        for (int i = 0; i < repeats && status == CKCONV_OK; ++i) {
            status = ckconv_run(plan, args, workspace, bytes, NULL, err);
        }
        ckconv_timer_stop(&plan->device, &timer, NULL);
        *seconds = ckconv_timer_seconds(&plan->device, &timer) / repeats;
        ckconv_timer_destroy(&plan->device, &timer);
    }
    return status;
}

/* Perf: 1.40031 ms, 69.8734 TFlops, 179.037 GB/s (a group norm, whose work is its bytes, without TFlops) */
static inline void ex_print_perf(const char *label, const ckconv_plan *plan, double seconds, const char *tail)
{
    printf("%s: %g ms, ", label, seconds * 1e3);
    if (plan->op != CKCONV_GROUPNORM_FWD && plan->op != CKCONV_GROUPNORM_BWD) {
        printf("%g TFlops, ", (double)plan->flop * 1e-12 / seconds);
    }
    printf("%g GB/s%s\n", (double)plan->bytes * 1e-9 / seconds, tail);
}


/*------------------------------------------------------------------------------------------------------------
  5. Verification of convolutions

  What is expected comes from double arithmetic: all outputs by the `ref` engine on f64 copies of the operands
  when the problem is small, else 4096 outputs, borders included, one by one; then all outputs are compared
  with another CPU instance too. Operands are first rounded to the type in which the plan multiplies.

  With integers whose sums stay below 2^24 every partial sum is exact in f32 in any order, so results must
  equal the expected value rounded once. Otherwise |got - want| <= u_out |want| + gamma(L) sum |a b|: one
  rounding to the output type, and L additions in f32 with gamma(L) = u L, for long sums 8 u sqrt(L) (the
  rounding errors of L additions are independent; beyond that with a probability below 1e-13 per output). In a
  chain of two convolutions a mid close to halfway between two numbers may be rounded to either: slack.
*/
#define EX_U32 (1.0 / 16777216) /* unit roundoff of f32, 2^-24 */
#define EX_SAMPLES 4096
#define EX_REF_FLOP 5e8    /* full reference up to this */
#define EX_OTHER_TIME 20.0 /* skip the comparison of all outputs past this many seconds */

/* Random access to the elements of a host tensor as doubles, rounded to the compute type. */
typedef struct ex_reader {
    const void *data;
    ckconv_dtype dtype;
    double *table; /* value of every 16-bit pattern */
} ex_reader;

static inline void ex_reader_open(ex_reader *reader, const ex_tensor *tensor, ckconv_dtype compute)
{
    reader->data = tensor->host;
    reader->dtype = tensor->info.dtype;
    reader->table = NULL;
    if (ckconv_dtype_size(reader->dtype) == 2) {
        uint16_t *bits = (uint16_t *)ex_alloc(65536, sizeof *bits);
        void *rounded = ex_alloc(65536, 8);
        reader->table = (double *)ex_alloc(65536, sizeof *reader->table);
        for (unsigned i = 0; i < 65536; ++i) {
            bits[i] = (uint16_t)i;
        }
        ckconv_to_double(reader->dtype, bits, reader->table, 65536);
        if (compute != 0 && compute != reader->dtype) {
            ckconv_from_double(compute, reader->table, rounded, 65536);
            ckconv_to_double(compute, rounded, reader->table, 65536);
        }
        free(bits);
        free(rounded);
    }
}

static inline double ex_read(const ex_reader *reader, int64_t index)
{
    if (reader->table != NULL) {
        return reader->table[((const uint16_t *)reader->data)[index]];
    }
    if (reader->dtype == CKCONV_F32) {
        return ((const float *)reader->data)[index];
    }
    double value = 0;
    const size_t size = ckconv_dtype_size(reader->dtype);
    ckconv_to_double(reader->dtype, (const char *)reader->data + (size_t)index * size, &value, 1);
    return value;
}

/* A convolution in three dimensions, whatever ndim is, with the strides of its tensors. */
typedef struct ex_geometry {
    ckconv_op op;
    int64_t n, k, c; /* sizes */
    int64_t filter[3], input[3], output[3], stride[3], dilation[3], pad[3];
    int64_t in[6], wei[6], out[6]; /* strides, logical order */
} ex_geometry;

/* Logical order with `rank` entries -> six entries, the missing outer dimensions filled in. */
static inline void ex_six(int64_t *six, const int64_t *given, int rank, int64_t fill)
{
    for (int i = 0; i < 6; ++i) {
        const int missing = 6 - rank;
        six[i] = i < 3 ? given[i] : i < 3 + missing ? fill : given[i - missing];
    }
}

static inline void ex_geometry_set(ex_geometry *e, ckconv_op op, const ckconv_conv_desc *desc,
                                   const ckconv_tensor_info *in, const ckconv_tensor_info *wei,
                                   const ckconv_tensor_info *out)
{
    memset(e, 0, sizeof *e);
    e->op = op;
    e->n = desc->n;
    e->k = desc->k;
    e->c = desc->c;
    ex_six(e->in, in->stride, in->rank, 0);
    ex_six(e->wei, wei->stride, wei->rank, 0);
    ex_six(e->out, out->stride, out->rank, 0);
    for (int i = 0; i < 3; ++i) {
        const int from = i - (3 - desc->ndim);
        e->filter[i] = from < 0 ? 1 : desc->filter[from];
        e->input[i] = from < 0 ? 1 : desc->input[from];
        e->stride[i] = from < 0 ? 1 : desc->stride[from];
        e->dilation[i] = from < 0 ? 1 : desc->dilation[from];
        e->pad[i] = from < 0 ? 0 : desc->pad_lo[from];
        const int64_t pads = from < 0 ? 0 : desc->pad_lo[from] + desc->pad_hi[from];
        e->output[i] = (e->input[i] + pads - (e->filter[i] - 1) * e->dilation[i] - 1) / e->stride[i] + 1;
    }
}

/* input = output * stride + tap * dilation - pad ties three positions: `fixed` is that of the written
   tensor, `near` the one the loop runs over. The third, or -1 when there is none. */
static inline int64_t ex_third(const ex_geometry *e, int i, int64_t near, int64_t fixed)
{
    if (e->op == CKCONV_BWD_DATA) {
        const int64_t reach = fixed + e->pad[i] - near * e->dilation[i];
        const int64_t output = reach / e->stride[i];
        return reach < 0 || reach % e->stride[i] != 0 || output >= e->output[i] ? -1 : output;
    }
    const int64_t output = e->op == CKCONV_FWD ? fixed : near, tap = e->op == CKCONV_FWD ? near : fixed;
    const int64_t input = output * e->stride[i] + tap * e->dilation[i] - e->pad[i];
    return input < 0 || input >= e->input[i] ? -1 : input;
}

/* One element of the written tensor, at {G, N, C, z, y, x} in its logical order: the sum over r (channels,
   or the batch for bwd_weight) and the near positions of far[third] * near[position]; *magnitude the same
   of absolute values. The far operand is the one that the third position belongs to: in, or out for
   bwd_data. */
static inline double ex_element(const ex_geometry *e, const ex_reader *far, const ex_reader *near,
                                const int64_t *at, double *magnitude)
{
    const int bwd_data = e->op == CKCONV_BWD_DATA, bwd_weight = e->op == CKCONV_BWD_WEIGHT;
    const int64_t *const fs = bwd_data ? e->out : e->in, *const ns = bwd_weight ? e->out : e->wei;
    const int64_t *const extent = bwd_weight ? e->output : e->filter;
    const int64_t length = bwd_weight ? e->n : bwd_data ? e->k : e->c;
    const int64_t far_step = bwd_weight ? fs[1] : fs[2];
    const int64_t near_step = bwd_weight || bwd_data ? ns[1] : ns[2];
    const int64_t far_base = at[0] * fs[0] + (bwd_weight ? at[2] * fs[2] : at[1] * fs[1]);
    const int64_t near_base = at[0] * ns[0] + (bwd_weight ? at[1] * ns[2]
                                               : bwd_data ? at[2] * ns[2]
                                                          : at[2] * ns[1]);
    double sum = 0, sum_of_magnitudes = 0;
    for (int64_t z = 0; z < extent[0]; ++z) {
        const int64_t tz = ex_third(e, 0, z, at[3]);
        for (int64_t y = 0; tz >= 0 && y < extent[1]; ++y) {
            const int64_t ty = ex_third(e, 1, y, at[4]);
            for (int64_t x = 0; ty >= 0 && x < extent[2]; ++x) {
                const int64_t tx = ex_third(e, 2, x, at[5]);
                const int64_t f = far_base + tz * fs[3] + ty * fs[4] + tx * fs[5];
                const int64_t n = near_base + z * ns[3] + y * ns[4] + x * ns[5];
                for (int64_t r = 0; tx >= 0 && r < length; ++r) {
                    const double product = ex_read(far, f + r * far_step) * ex_read(near, n + r * near_step);
                    sum += product;
                    sum_of_magnitudes += fabs(product);
                }
            }
        }
    }
    *magnitude = sum_of_magnitudes;
    return sum;
}

/* What a written tensor must hold. Opened once per problem, it checks any number of runs. */
typedef struct ex_oracle {
    ckconv_plan plan;
    ex_tensor *written;
    ex_tensor *operand[3]; /* in the order of the operation: in wei | dout wei | in dout | in wei0 wei1 */
    int operands;
    ex_reader reader[3];
    ex_geometry geometry; /* of the (first) convolution */
    double largest[3];    /* operands' largest magnitude */
    int integers;
    double most;      /* no sum of magnitudes is above this */
    double gamma;     /* relative to the sum of magnitudes */
    double gamma_mid; /* conv_conv: that of the first convolution */
    double flip_most; /* and what rounding mid differently may add between two engines */
    int64_t count;    /* expected values */
    int64_t *index;   /* their elements; NULL: all */
    double *want, *magnitude, *slack;
    int32_t other;             /* instance that computed `all`; -1: none */
    void *all, *all_magnitude; /* in the written tensor's type */
} ex_oracle;

static inline void ex_oracle_close(ex_oracle *o)
{
    for (int i = 0; i < o->operands; ++i) {
        free(o->reader[i].table);
    }
    free(o->index);
    free(o->want);
    free(o->magnitude);
    free(o->slack);
    free(o->all);
    free(o->all_magnitude);
}

/* Bounds out of the reduction: `length` products of the operands' largest magnitudes. */
static inline double ex_gamma(double length)
{
    return EX_U32 * (length <= 64 ? length : 8 * sqrt(length));
}

/* Unit roundoff of a type: half the distance from 1 to the next number. */
static inline double ex_unit(ckconv_dtype dtype)
{
    return dtype == CKCONV_F64    ? ldexp(1, -53)
           : dtype == CKCONV_F16  ? ldexp(1, -11)
           : dtype == CKCONV_BF16 ? ldexp(1, -8)
                                  : EX_U32;
}

static inline int ex_exact(const ex_oracle *o)
{
    return o->integers && o->most <= 1 / EX_U32;
}

/* A whole operand as doubles (or their magnitudes), in its memory order. */
static inline double *ex_doubles(const ex_oracle *o, int which, int magnitude)
{
    const int64_t count = o->operand[which]->info.count;
    double *values = (double *)ex_alloc(count, sizeof *values);
    for (int64_t i = 0; i < count; ++i) {
        const double value = ex_read(&o->reader[which], i);
        values[i] = magnitude ? fabs(value) : value;
    }
    return values;
}

/* The `ref` engine in f64; a, b: the tensors read, in the order of the operation. */
static inline ckconv_status ex_ref_f64(ckconv_op op, const ckconv_conv_desc *resolved, const double *a,
                                       const double *b, double *c, ckconv_error *err)
{
    ckconv_conv_desc desc = *resolved;
    ckconv_args args;
    memset(&args, 0, sizeof args);
    desc.in.dtype = desc.wei.dtype = desc.out.dtype = CKCONV_F64;
    desc.compute_in = desc.compute_wei = desc.compute_out = 0;
    if (op == CKCONV_FWD) {
        args.in = a;
        args.wei = b;
        args.out = c;
    } else if (op == CKCONV_BWD_DATA) {
        args.dout = a;
        args.wei = b;
        args.din = c;
    } else {
        args.in = a;
        args.dout = b;
        args.dwei = c;
    }
    return ckconv_ref_conv(op, &desc, &args, err);
}

/* The second convolution of a chain as one of its own, its input the tensor in between. */
static inline ckconv_conv_desc ex_second(const ckconv_conv_conv_desc *chain, const int64_t *mid)
{
    ckconv_conv_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.ndim = chain->conv0.ndim;
    desc.g = chain->g1;
    desc.n = chain->conv0.n;
    desc.k = chain->k1;
    desc.c = chain->conv0.g * chain->conv0.k / chain->g1;
    for (int i = 0; i < desc.ndim; ++i) {
        desc.input[i] = mid[i];
        desc.filter[i] = chain->filter1[i];
        desc.stride[i] = chain->stride1[i];
        desc.dilation[i] = chain->dilation1[i];
        desc.pad_lo[i] = chain->pad_lo1[i];
        desc.pad_hi[i] = chain->pad_hi1[i];
    }
    desc.wei = chain->wei1;
    desc.out = chain->out;
    return desc;
}

static inline double ex_rounded(ckconv_dtype dtype, double value)
{
    double narrow[2]; /* room for any type */
    ckconv_from_double(dtype, &value, narrow, 1);
    ckconv_to_double(dtype, narrow, &value, 1);
    return value;
}

/* How far a mid may land from where exact arithmetic puts it: a sum that is nearly halfway between two
   numbers of the compute type may be rounded to either. */
static inline double ex_flip(const ex_oracle *o, double mid, double magnitude)
{
    const ckconv_dtype dtype = o->plan.u.conv_conv.conv0.compute_in;
    const double error = o->gamma_mid * magnitude, middle = ex_rounded(dtype, mid);
    return fmax(fabs(ex_rounded(dtype, mid + error) - middle), fabs(ex_rounded(dtype, mid - error) - middle));
}

/* The first convolution of a chain, unrounded. */
static inline ckconv_status ex_mids(const ex_oracle *o, int magnitude, double *mid, ckconv_error *err)
{
    ckconv_conv_desc first = o->plan.u.conv_conv.conv0;
    first.out.layout = CKCONV_NHWGK; /* mid so that its channels regroup freely */
    double *a = ex_doubles(o, 0, magnitude), *b = ex_doubles(o, 1, magnitude);
    const ckconv_status status = ex_ref_f64(CKCONV_FWD, &first, a, b, mid, err);
    free(a);
    free(b);
    return status;
}

enum { EX_WANT = 0, EX_MAGNITUDE = 1, EX_SLACK = 2 };

/* All outputs of a chain by the reference: values, magnitudes, or what flips of mid may add. */
static inline ckconv_status ex_chain_all(const ex_oracle *o, int what, double *result, ckconv_error *err)
{
    const ckconv_conv_conv_desc *chain = &o->plan.u.conv_conv;
    int64_t size[3] = {1, 1, 1};
    ckconv_status status = ckconv_conv_output(&chain->conv0, size, err);
    const int64_t count = chain->conv0.n * chain->conv0.g * chain->conv0.k * size[0] * size[1] * size[2];
    double *mid = (double *)ex_alloc(count, sizeof *mid), *of_mid = (double *)ex_alloc(count, sizeof *of_mid);
    if (status == CKCONV_OK) {
        status = ex_mids(o, 0, mid, err);
    }
    if (status == CKCONV_OK && what != EX_WANT) {
        status = ex_mids(o, 1, of_mid, err);
    }
    for (int64_t i = 0; i < count; ++i) {
        mid[i] = what == EX_WANT        ? ex_rounded(chain->conv0.compute_in, mid[i])
                 : what == EX_MAGNITUDE ? of_mid[i]
                                        : ex_flip(o, mid[i], of_mid[i]);
    }
    double *c = ex_doubles(o, 2, what != EX_WANT);
    const ckconv_conv_desc second = ex_second(chain, size);
    if (status == CKCONV_OK) {
        status = ex_ref_f64(CKCONV_FWD, &second, mid, c, result, err);
    }
    free(mid);
    free(of_mid);
    free(c);
    return status;
}

/* All outputs by the reference, or their magnitudes, or their slack. */
static inline ckconv_status ex_expect_all(const ex_oracle *o, int what, double **result, ckconv_error *err)
{
    const ckconv_plan *plan = &o->plan;
    *result = (double *)ex_alloc(o->count, sizeof **result);
    if (plan->op == CKCONV_CONV_CONV_FWD) {
        return ex_chain_all(o, what, *result, err);
    }
    if (what == EX_SLACK) {
        return CKCONV_OK; /* none */
    }
    double *a = ex_doubles(o, 0, what), *b = ex_doubles(o, 1, what);
    const ckconv_status status = ex_ref_f64(plan->op, &plan->u.conv, a, b, *result, err);
    free(a);
    free(b);
    return status;
}

/* One output of a chain whose second convolution is 1x1: the mids it needs, one after the other. */
static inline double ex_chain_element(const ex_oracle *o, const int64_t *at, double *magnitude, double *slack)
{
    const ckconv_conv_conv_desc *chain = &o->plan.u.conv_conv;
    const int64_t channels = chain->conv0.g * chain->conv0.k / chain->g1;
    int64_t wei1[6];
    ex_six(wei1, o->operand[2]->info.stride, o->operand[2]->info.rank, 0);
    double sum = 0, sum_of_magnitudes = 0;
    for (int64_t c = 0; c < channels; ++c) {
        const int64_t channel = at[0] * channels + c;
        const int64_t mid_at[6] = {
            channel / chain->conv0.k, at[1], channel % chain->conv0.k, at[3], at[4], at[5]};
        double of_mid = 0;
        const double mid = ex_element(&o->geometry, &o->reader[0], &o->reader[1], mid_at, &of_mid);
        const double w = ex_read(&o->reader[2], at[0] * wei1[0] + at[2] * wei1[1] + c * wei1[2]);
        sum += w * ex_rounded(chain->conv0.compute_in, mid);
        sum_of_magnitudes += fabs(w) * of_mid;
        *slack += fabs(w) * ex_flip(o, mid, of_mid);
    }
    *magnitude = sum_of_magnitudes;
    return sum;
}

/* Position of an element of a packed tensor, in logical order, as six entries. */
static inline void ex_position(const ckconv_tensor_info *info, int64_t element, int64_t *at)
{
    int64_t position[6] = {0};
    for (int i = 0; i < info->rank; ++i) {
        position[i] = element / info->stride[i] % info->length[i];
    }
    ex_six(at, position, info->rank, 0);
}

/* Some outputs: the corners of all dimensions, then random ones of which half lie on a border in each
   dimension. */
static inline void ex_expect_samples(ex_oracle *o)
{
    const ckconv_tensor_info *info = &o->written->info;
    uint64_t state = 1;
    o->count = info->count < EX_SAMPLES ? info->count : EX_SAMPLES;
    o->index = (int64_t *)ex_alloc(o->count, sizeof *o->index);
    o->want = (double *)ex_alloc(o->count, sizeof *o->want);
    o->magnitude = (double *)ex_alloc(o->count, sizeof *o->magnitude);
    o->slack = (double *)ex_alloc(o->count, sizeof *o->slack);
    for (int64_t j = 0; j < o->count; ++j) {
        for (int i = 0; i < info->rank; ++i) {
            const uint64_t bits = j < 64 ? ((uint64_t)j >> i & 1) * 2 : ex_random(&state) >> 8;
            const int64_t last = info->length[i] - 1;
            const int64_t inside = (int64_t)((bits >> 2) % (uint64_t)info->length[i]);
            o->index[j] += info->stride[i] * ((bits & 1) != 0 ? inside : (bits & 2) != 0 ? last : 0);
        }
        o->index[j] = o->count < EX_SAMPLES ? j : o->index[j];
    }
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 16)
#endif
    for (int64_t j = 0; j < o->count; ++j) {
        int64_t at[6];
        ex_position(info, o->index[j], at);
        if (o->plan.op == CKCONV_CONV_CONV_FWD) {
            o->want[j] = ex_chain_element(o, at, &o->magnitude[j], &o->slack[j]);
        } else {
            o->want[j] = ex_element(&o->geometry, &o->reader[0], &o->reader[1], at, &o->magnitude[j]);
        }
    }
}

/* Plan the problem of `plan` for this CPU. */
static inline ckconv_status ex_plan_cpu(ckconv_plan *cpu_plan, const ckconv_plan *plan, ckconv_error *err)
{
    ckconv_device cpu;
    ckconv_device_cpu(&cpu);
    if (plan->op == CKCONV_CONV_CONV_FWD) {
        return ckconv_plan_conv_conv(cpu_plan, &plan->u.conv_conv, NULL, &cpu, err);
    }
    return ckconv_plan_conv(cpu_plan, plan->op, &plan->u.conv, NULL, &cpu, err);
}

/* Run a CPU plan on the oracle's operands, or on their magnitudes. */
static inline ckconv_status ex_run_cpu(const ex_oracle *o, const ckconv_plan *plan, int magnitude,
                                       void *result, ckconv_error *err)
{
    const void *data[3] = {NULL, NULL, NULL};
    void *copy[3] = {NULL, NULL, NULL};
    for (int i = 0; i < o->operands; ++i) {
        const ckconv_tensor_info *info = &o->operand[i]->info;
        data[i] = o->operand[i]->host;
        if (magnitude) {
            double *values = ex_doubles(o, i, 1);
            data[i] = copy[i] = ex_alloc(info->bytes, 1);
            ckconv_from_double(info->dtype, values, copy[i], (size_t)info->count);
            free(values);
        }
    }
    ckconv_args args;
    memset(&args, 0, sizeof args);
    args.in = plan->op == CKCONV_BWD_DATA ? NULL : data[0];
    args.dout = plan->op == CKCONV_BWD_DATA ? data[0] : plan->op == CKCONV_BWD_WEIGHT ? data[1] : NULL;
    args.wei = plan->op == CKCONV_BWD_WEIGHT ? NULL : data[1];
    args.wei1 = data[2];
    args.out = plan->op == CKCONV_FWD || plan->op == CKCONV_CONV_CONV_FWD ? result : NULL;
    args.din = plan->op == CKCONV_BWD_DATA ? result : NULL;
    args.dwei = plan->op == CKCONV_BWD_WEIGHT ? result : NULL;
    void *workspace = ex_alloc(plan->workspace_bytes, 1);
    const ckconv_status status = ckconv_run(plan, &args, workspace, (size_t)plan->workspace_bytes, NULL, err);
    free(workspace);
    for (int i = 0; i < 3; ++i) {
        free(copy[i]);
    }
    return status;
}

/* All outputs by another instance of the CPU engine, of another family if there is one. */
static inline ckconv_status ex_expect_other(ex_oracle *o, ckconv_error *err)
{
    ckconv_plan base, plan;
    ckconv_options options;
    ckconv_status status = ex_plan_cpu(&base, &o->plan, err);
    const ckconv_family family = ckconv_instance_family(o->plan.instance);
    int found = 0;
    o->other = -1;
    if (status != CKCONV_OK || (double)base.flop / ex_cpu_flops(&base.device) > EX_OTHER_TIME) {
        return status;
    }
    for (int32_t i = 0; i < ckconv_instance_count(); ++i) {
        const int stranger = ckconv_instance_family(i) != family;
        if (i != o->plan.instance && ckconv_instance_engine(i) == CKCONV_ENGINE_CPU &&
            ckconv_instance_supports(i, &base, NULL) == CKCONV_OK && (stranger || !found)) {
            o->other = i; /* later ones are for newer processors */
            found = stranger;
        }
    }
    if (o->other < 0) {
        return CKCONV_OK;
    }
    memset(&options, 0, sizeof options);
    options.instance = ckconv_instance_name(o->other);
    status = ckconv_plan_again(&plan, &base, &options, err);
    if (status == CKCONV_OK) {
        o->all = ex_alloc(o->written->info.bytes, 1);
        status = ex_run_cpu(o, &plan, 0, o->all, err);
    }
    if (status == CKCONV_OK && !ex_exact(o)) {
        o->all_magnitude = ex_alloc(o->written->info.bytes, 1);
        status = ex_run_cpu(o, &plan, 1, o->all_magnitude, err);
    }
    return status;
}

/* Work out what a plan must compute. The operands hold their values on the host; in the order of
   ckconv_args' table: in wei | dout wei | in dout | in wei wei1. */
static inline ckconv_status ex_oracle_open(ex_oracle *o, const ckconv_plan *plan, const ex_options *options,
                                           ex_tensor *written, ex_tensor *first, ex_tensor *second,
                                           ex_tensor *third, ckconv_error *err)
{
    memset(o, 0, sizeof *o);
    o->plan = *plan;
    o->written = written;
    o->operand[0] = first;
    o->operand[1] = second;
    o->operand[2] = third;
    o->operands = third == NULL ? 2 : 3;
    o->integers = options->init < 2;
    o->other = -1;
    const int chain = plan->op == CKCONV_CONV_CONV_FWD;
    const ckconv_conv_desc *conv = chain ? &plan->u.conv_conv.conv0 : &plan->u.conv;
    const ckconv_dtype compute[3] = {plan->op == CKCONV_BWD_DATA ? conv->compute_out : conv->compute_in,
                                     plan->op == CKCONV_BWD_WEIGHT ? conv->compute_out : conv->compute_wei,
                                     plan->u.conv_conv.compute_wei1};
    for (int i = 0; i < o->operands; ++i) {
        ex_reader_open(&o->reader[i], o->operand[i], compute[i]);
        for (int64_t j = 0; j < o->operand[i]->info.count; ++j) {
            const double value = fabs(ex_read(&o->reader[i], j));
            o->largest[i] = value > o->largest[i] ? value : o->largest[i];
        }
    }
    const ckconv_tensor_info *a = &first->info, *b = &second->info, *w = &written->info;
    const ckconv_op op = chain ? CKCONV_FWD : plan->op;
    ex_geometry_set(&o->geometry, op, conv, op == CKCONV_BWD_DATA ? w : a, op == CKCONV_BWD_WEIGHT ? w : b,
                    op == CKCONV_FWD        ? w
                    : op == CKCONV_BWD_DATA ? a
                                            : b);
    const ex_geometry *e = &o->geometry;
    const double taps = (double)(e->filter[0] * e->filter[1] * e->filter[2]);
    const double outputs = (double)(e->output[0] * e->output[1] * e->output[2]);
    double length = op == CKCONV_FWD        ? taps * (double)e->c
                    : op == CKCONV_BWD_DATA ? taps * (double)e->k
                                            : outputs * (double)e->n;
    o->most = length * o->largest[0] * o->largest[1];
    o->gamma = ex_gamma(length);
    if (chain) {
        length = (double)(plan->u.conv_conv.conv0.g * e->k / plan->u.conv_conv.g1);
        o->gamma_mid = o->gamma;
        o->gamma = ex_gamma(length);
        o->flip_most = 8 * 2 * ex_unit(conv->compute_in) * o->most * o->largest[2]; /* 8 mids: one is rare */
        o->most *= length * o->largest[2];
    }
    if ((double)plan->flop > EX_REF_FLOP) {
        ex_expect_samples(o);
        return ex_expect_other(o, err);
    }
    o->count = w->count;
    ckconv_status status = ex_expect_all(o, EX_WANT, &o->want, err);
    if (status == CKCONV_OK && !ex_exact(o)) {
        status = ex_expect_all(o, EX_MAGNITUDE, &o->magnitude, err);
    }
    if (status == CKCONV_OK && !ex_exact(o)) {
        status = ex_expect_all(o, EX_SLACK, &o->slack, err);
    }
    return status;
}

/* Is `got` a right result? magnitude: the sum of magnitudes; slack: what may come on top; times: 2 when
   `want` was rounded and summed in f32 too. */
static inline int ex_close(const ex_oracle *o, double got, double want, double magnitude, double slack,
                           double times)
{
    const ckconv_dtype dtype = o->written->info.dtype;
    if (got == want) {
        return 1;
    }
    if (ex_exact(o) || (o->integers && magnitude <= 1 / EX_U32)) {
        const double rounded = ex_rounded(dtype, want);
        return got == rounded || (isnan(got) && isnan(rounded));
    }
    const double tiny = dtype == CKCONV_F16 ? ldexp(1, -25) : ldexp(1, -149);
    const double bound = times * (ex_unit(dtype) * fabs(want) + o->gamma * magnitude + tiny) + slack;
    if (isinf(got) || isinf(want)) { /* a sum at the edge of the type may fall on either side */
        const double finite = isinf(want) ? fabs(got) : fabs(want);
        const int same_side = (got > 0) == (want > 0);
        return same_side && (got == want || isinf(ex_rounded(dtype, finite + bound)));
    }
    return fabs(got - want) <= bound;
}

/* One line about `count` comparisons, and one about the first that failed. */
static inline void ex_verdict(const ex_oracle *o, const char *with, int64_t count, int64_t bad,
                              int64_t element, double got, double want)
{
    if (bad == 0) {
        printf("verify: %" PRId64 " of %" PRId64 " outputs %s %s\n", count, o->written->info.count,
               ex_exact(o) ? "equal" : "within the rounding error of", with);
        return;
    }
    printf("verify FAILED: %" PRId64 " of %" PRId64 " outputs differ from %s; first %s[", bad, count, with,
           o->written->name);
    const ckconv_tensor_info *info = &o->written->info;
    for (int i = 0; i < info->rank; ++i) {
        printf("%s%" PRId64, i == 0 ? "" : ", ", element / info->stride[i] % info->length[i]);
    }
    printf("] = %.9g, expected %.9g\n", got, want);
}

/* Compare the written tensor, downloaded, with what is expected. Returns 1 if all is right. */
static inline int ex_oracle_check(const ex_oracle *o)
{
    const ckconv_tensor_info *info = &o->written->info;
    ex_reader got, all, all_magnitude;
    ex_reader_open(&got, o->written, 0);
    all = all_magnitude = got; /* same type */
    all.data = o->all;
    all_magnitude.data = o->all_magnitude;
    int64_t bad = 0, first = 0, bad_all = 0, first_all = 0;
    for (int64_t j = 0; j < o->count; ++j) {
        const int64_t element = o->index != NULL ? o->index[j] : j;
        const double magnitude = o->magnitude != NULL ? o->magnitude[j] : o->most;
        const double slack = o->slack != NULL ? o->slack[j] : 0;
        if (!ex_close(o, ex_read(&got, element), o->want[j], magnitude, slack, 1) && bad++ == 0) {
            first = j;
        }
    }
    const int64_t element = o->index != NULL ? o->index[first] : first;
    ex_verdict(o, o->index != NULL ? "sums in double, borders included" : "the ref engine in f64", o->count,
               bad, element, bad > 0 ? ex_read(&got, element) : 0, bad > 0 ? o->want[first] : 0);
    if (o->other >= 0) {
        for (int64_t j = 0; j < info->count; ++j) {
            const double run = o->all_magnitude != NULL ? ex_read(&all_magnitude, j) : o->most;
            const double magnitude = run < o->most ? run : o->most; /* that run may have overflowed */
            if (!ex_close(o, ex_read(&got, j), ex_read(&all, j), magnitude, o->flip_most, 2) &&
                bad_all++ == 0) {
                first_all = j;
            }
        }
        ex_verdict(o, ckconv_instance_name(o->other), info->count, bad_all, first_all,
                   bad_all > 0 ? ex_read(&got, first_all) : 0, bad_all > 0 ? ex_read(&all, first_all) : 0);
    }
    free(got.table);
    return bad == 0 && bad_all == 0;
}

/* For sums whose terms cancel: every element within `limit` times the largest expected value. f32 only. */
static inline int ex_check_largest(const ex_tensor *got, const double *want, double limit)
{
    double largest = 0, worst = 0;
    int64_t bad = 0;
    for (int64_t i = 0; i < got->info.count; ++i) {
        largest = fmax(largest, fabs(want[i]));
    }
    for (int64_t i = 0; i < got->info.count; ++i) {
        const double error = fabs((double)((const float *)got->host)[i] - want[i]);
        bad += !(error <= limit * largest); /* a NaN counts too */
        worst = fmax(worst, error);
    }
    printf("verify%s: %s, %" PRId64 " of %" PRId64 " outputs wrong, largest value %g, largest error %g\n",
           bad == 0 ? "" : " FAILED", got->name, bad, got->info.count, largest, worst);
    return bad == 0;
}


/*------------------------------------------------------------------------------------------------------------
  6. The clients' routine: bwd_weight by every instance, split_k 2, then the best
*/
static inline ckconv_options ex_client_options(void)
{
    ckconv_options options;
    memset(&options, 0, sizeof options);
    options.split_k = 2;
    return options;
}

/* The plan of instance `index`, or the reason why not. */
static inline ckconv_status ex_client_plan(ckconv_plan *plan, const ckconv_plan *base, int32_t index,
                                           ckconv_error *err)
{
    ckconv_options options = ex_client_options();
    options.instance = ckconv_instance_name(index);
    const ckconv_status status = ckconv_instance_supports(index, base, err);
    return status != CKCONV_OK ? status : ckconv_plan_again(plan, base, &options, err);
}

/* Time one plan and verify what it wrote. */
static inline ckconv_status ex_client_run(const ckconv_plan *plan, const ckconv_args *args, ex_tensor *dwei,
                                          const ex_options *options, const ex_oracle *oracle, double *seconds,
                                          int *right, ckconv_error *err)
{
    void *workspace = NULL;
    ckconv_status status = ex_workspace(plan, &workspace, err);
    if (status == CKCONV_OK) {
        ex_print_plan(plan);
        status = ex_poison(dwei, err);
    }
    if (status == CKCONV_OK) {
        status = ex_time(plan, args, workspace, options->time, seconds, err);
    }
    if (status == CKCONV_OK) {
        status = ex_download(dwei, err);
    }
    ckconv_device_free(&plan->device, workspace);
    *right = status == CKCONV_OK && (!options->verify || ex_oracle_check(oracle));
    return status;
}

/* Instances of the base plan's engine. The ref engine is not a candidate: it checks them. */
static inline int ex_is_candidate(const ckconv_plan *base, int32_t index)
{
    return ckconv_instance_does(index, base->op) && ckconv_instance_engine(index) == base->engine;
}

/* Every instance: verdict and Perf line; then the best. Returns the exit status. */
static inline int ex_client_all(const ckconv_plan *base, const ex_options *options, const ckconv_args *args,
                                ex_tensor *dwei, const ex_oracle *oracle, ckconv_error *err)
{
    int found = 0, all_right = 1;
    double best_seconds = 0;
    ckconv_plan best;
    char tail[128];
    memset(&best, 0, sizeof best);
    for (int32_t i = 0; i < ckconv_instance_count(); ++i) {
        found += ex_is_candidate(base, i);
    }
    printf("found %d instances\nRun all instances and do timing\n", found);
    for (int32_t i = 0; i < ckconv_instance_count(); ++i) {
        ckconv_plan plan;
        if (!ex_is_candidate(base, i)) {
            continue;
        }
        if (ex_client_plan(&plan, base, i, err) != CKCONV_OK) {
            fflush(stdout);
            fprintf(stderr, "%s does not support this problem: %s\n", ckconv_instance_name(i), err->text);
            continue;
        }
        double seconds = 0;
        int right = 0;
        if (ex_client_run(&plan, args, dwei, options, oracle, &seconds, &right, err) != CKCONV_OK) {
            return ex_fail(err);
        }
        snprintf(tail, sizeof tail, ", %s, split_k %d", ckconv_instance_name(i), (int)plan.split_k);
        ex_print_perf("Perf", &plan, seconds, tail);
        all_right = all_right && right;
        if (right && (best.magic == 0 || seconds < best_seconds)) {
            best = plan;
            best_seconds = seconds;
        }
    }
    if (best.magic == 0) {
        fprintf(stderr, "no suitable instance\n");
        return EX_FAILED;
    }
    snprintf(tail, sizeof tail, ", %s, split_k %d", ckconv_instance_name(best.instance), (int)best.split_k);
    ex_print_perf("Best Perf", &best, best_seconds, tail);
    return all_right ? EX_OK : EX_FAILED;
}

/* A whole client program. types: the description's tensors and compute types; the rest comes from the
   arguments. */
static inline int ex_client_bwd_weight(int argc, char **argv, const int64_t *standard,
                                       const ckconv_conv_desc *types)
{
    ex_options options;
    ckconv_conv_desc desc;
    const int usage = ex_parse_conv(argc, argv, standard, 0, &options, &desc);
    if (usage >= 0) {
        return usage;
    }
    desc.in = types->in;
    desc.wei = types->wei;
    desc.out = types->out;
    desc.compute_in = types->compute_in;
    desc.compute_out = types->compute_out;

    ckconv_error err;
    ckconv_device device;
    ckconv_plan base;
    ex_tensor in, wei, out;
    const ckconv_options split = ex_client_options();
    const double runs = 6 * ex_runs(&options); /* of the fast instances, or one of a slow one */
    if (ex_open_device(&device, &err) != CKCONV_OK ||
        ex_plan_conv(&base, CKCONV_BWD_WEIGHT, &desc, &split, &device, runs, &err) != CKCONV_OK ||
        ex_tensor_open(&in, &base, CKCONV_TENSOR_IN, "in", &err) != CKCONV_OK ||
        ex_tensor_open(&wei, &base, CKCONV_TENSOR_WEI, "wei", &err) != CKCONV_OK ||
        ex_tensor_open(&out, &base, CKCONV_TENSOR_OUT, "out", &err) != CKCONV_OK ||
        ex_fill(&in, options.init, 0.0, 1.0, &err) != CKCONV_OK ||
        ex_fill(&out, options.init, -0.5, 0.5, &err) != CKCONV_OK) {
        return ex_fail(&err);
    }
    ex_oracle oracle;
    memset(&oracle, 0, sizeof oracle);
    if (options.verify &&
        ex_oracle_open(&oracle, &base, &options, &wei, &in, &out, NULL, &err) != CKCONV_OK) {
        return ex_fail(&err);
    }
    ckconv_args args;
    memset(&args, 0, sizeof args);
    args.in = in.memory;
    args.dout = out.memory;
    args.dwei = wei.memory;
    const int result = ex_client_all(&base, &options, &args, &wei, &oracle, &err);
    ex_oracle_close(&oracle);
    ex_tensor_close(&in);
    ex_tensor_close(&wei);
    ex_tensor_close(&out);
    return result;
}

#endif /* EXAMPLE_H */
