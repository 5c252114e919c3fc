/* test_golden.c - PyTorch's float64 results for 72 problems, in every type that holds them, every layout and
   instance
   SPDX-License-Identifier: MIT

   usage: test_golden [FOLDER]      (default: CKCONV_GOLDEN or tests/golden, from the root of the project)
   Convolution data are integers: results are compared for equality after one rounding to the written type. */
#define _POSIX_C_SOURCE 200809L
#include "naive_conv_conv.h"
#include "naive_groupnorm.h"

static const char *folder = "tests/golden";

/* On a simulated GPU one of so many combinations of type and layout, others for each problem: sanitizers and
   NVIDIA's units, whose groups of waves are large, take the longest. Fewer with CKCONV_TEST_QUICK=1. */
static int thin_step(void)
{
    const char *target = getenv("CKCONV_SIM_TARGET");
    const int slow = TEST_ASAN || (target != NULL && strncmp(target, "sm_", 3) == 0);
    return test_variable("CKCONV_TEST_QUICK") ? (slow ? 41 : 29) : slow ? 14 : 7;
}

/* One array as doubles, in PyTorch's order. */
typedef struct golden_array {
    int rank;
    int64_t length[5], count;
    double *value;
} golden_array;

typedef struct golden_row {
    char name[32], op[32], extra[32];
    int ndim;
    int64_t g, n, k, c;
    int64_t filter[3], input[3], stride[3], dilation[3], lo[3], hi[3];
} golden_row;

static void give_up(const char *path, const char *why)
{
    printf("%s: %s\n", path, why);
    test.failed++;
    exit(test_end());
}

static double read_element(const char *descr, const unsigned char *p)
{
    if (strcmp(descr, "<f8") == 0) {
        return test_decode(CKCONV_F64, p);
    }
    if (strcmp(descr, "<f4") == 0) {
        return test_decode(CKCONV_F32, p);
    }
    if (strcmp(descr, "<f2") == 0) {
        return test_decode(CKCONV_F16, p);
    }
    if (strcmp(descr, "<i4") == 0) {
        return test_decode(CKCONV_I32, p);
    }
    if (strcmp(descr, "<i2") == 0) {
        int16_t v;
        memcpy(&v, p, 2);
        return (double)v;
    }
    return test_decode(CKCONV_I8, p);
}

/* folder/NAME.PART.npy, version 1, C order, little endian. */
static golden_array read_npy(const char *name, const char *part)
{
    golden_array a;
    char path[512];
    unsigned char head[10];
    char text[512];
    char descr[4];
    memset(&a, 0, sizeof a);
    snprintf(path, sizeof path, "%s/%s.%s.npy", folder, name, part);
    FILE *f = fopen(path, "rb");
    if (f == NULL || fread(head, 1, 10, f) != 10 || memcmp(head, "\x93NUMPY\x01", 7) != 0) {
        give_up(path, "cannot be read as .npy");
        return a;
    }
    const size_t size = (size_t)head[8] + 256u * (size_t)head[9];
    if (size >= sizeof text || fread(text, 1, size, f) != size) {
        give_up(path, "has no header");
    }
    text[size] = 0;
    const char *d = strstr(text, "'descr': '");
    const char *s = strstr(text, "'shape': (");
    if (d == NULL || s == NULL || strstr(text, "'fortran_order': False") == NULL) {
        give_up(path, "has an unknown header");
        return a;
    }
    memcpy(descr, d + 10, 3);
    descr[3] = 0;
    a.count = 1;
    s += 10;
    while (*s >= '0' && *s <= '9' && a.rank < 5) {
        char *end = NULL;
        a.length[a.rank] = strtoll(s, &end, 10);
        a.count *= a.length[a.rank++];
        s = end + (*end == ',' ? 1 : 0);
        s += *s == ' ' ? 1 : 0;
    }
    const size_t item = (size_t)(descr[2] - '0');
    unsigned char *bytes = (unsigned char *)malloc((size_t)a.count * item + 1);
    if (bytes == NULL || fread(bytes, 1, (size_t)a.count * item + 1, f) != (size_t)a.count * item) {
        give_up(path, "has another length than its header says");
        return a;
    }
    fclose(f);
    a.value = test_doubles(a.count);
    for (int64_t i = 0; i < a.count; i++) {
        a.value[i] = read_element(descr, bytes + (size_t)i * item);
    }
    free(bytes);
    return a;
}

/* [N, G*C, spatial] to the logical order G, N, C, spatial. */
static void regroup(golden_array *a, int64_t g)
{
    const int64_t n = a->length[0];
    const int64_t c = a->length[1] / g;
    const int64_t spatial = a->count / (n * g * c);
    double *to = test_doubles(a->count);
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t s = i % spatial;
        const int64_t channel = i / spatial % (g * c);
        const int64_t batch = i / (spatial * g * c);
        to[((channel / c * n + batch) * c + channel % c) * spatial + s] = a->value[i];
    }
    free(a->value);
    a->value = to;
}

static void parse_list(const char *text, int64_t *value)
{
    char *end = NULL;
    for (int i = 0; i < 3 && *text >= '0' && *text <= '9'; i++) {
        value[i] = strtoll(text, &end, 10);
        text = end + (*end == ',' ? 1 : 0);
    }
}

static int parse_row(char *line, golden_row *row)
{
    char *cell[14];
    int count = 0;
    memset(row, 0, sizeof *row);
    for (char *p = strtok(line, "\t\n"); p != NULL && count < 14; p = strtok(NULL, "\t\n")) {
        cell[count++] = p;
    }
    if (count < 14 || strcmp(cell[0], "name") == 0) {
        return 0;
    }
    snprintf(row->name, sizeof row->name, "%s", cell[0]);
    snprintf(row->op, sizeof row->op, "%s", cell[1]);
    snprintf(row->extra, sizeof row->extra, "%s", cell[13]);
    row->ndim = atoi(cell[2]);
    row->g = atoi(cell[3]);
    row->n = atoi(cell[4]);
    row->k = atoi(cell[5]);
    row->c = atoi(cell[6]);
    parse_list(cell[7], row->filter);
    parse_list(cell[8], row->input);
    parse_list(cell[9], row->stride);
    parse_list(cell[10], row->dilation);
    parse_list(cell[11], row->lo);
    parse_list(cell[12], row->hi);
    return 1;
}

static void set_geometry(ckconv_conv_desc *d, const golden_row *row)
{
    test_layer(d, row->ndim, row->g, row->n, row->k, row->c);
    test_windows(d, row->filter, row->input, row->stride, row->dilation, row->lo, row->hi);
}

/*------------------------------------------------------------------------------------------------------------
  convolutions
*/
static const ckconv_dtype golden_types[][3] = {
    {CKCONV_F32, CKCONV_F32, CKCONV_F32},    {CKCONV_F16, CKCONV_F16, CKCONV_F16},
    {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16}, {CKCONV_F64, CKCONV_F64, CKCONV_F64},
    {CKCONV_BF16, CKCONV_F32, CKCONV_BF16},  {CKCONV_F8E4M3, CKCONV_F8E4M3, CKCONV_F32},
    {CKCONV_I8, CKCONV_I8, CKCONV_I32},
};
#define GOLDEN_TYPES ((int)(sizeof golden_types / sizeof golden_types[0]))

/* 0..2: the named layouts; 3: strides with gaps. */
static void set_layouts(ckconv_conv_desc *d, int layout, test_rng *r)
{
    static const ckconv_layout data[4] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW, CKCONV_STRIDED};
    static const ckconv_layout wei[4] = {CKCONV_GKYXC, CKCONV_GKYXC, CKCONV_GKCYX, CKCONV_STRIDED};
    ckconv_tensor *t[3] = {&d->in, &d->wei, &d->out};
    for (int i = 0; i < 3; i++) {
        int64_t length[6];
        t[i]->layout = i == NAIVE_WEI ? wei[layout] : data[layout];
        if (layout == 3) {
            naive_lengths(d, i, length);
            test_gap_strides(r, d->ndim, length, t[i]->stride);
        }
    }
}

/* The planner's choice; with `all`, every CPU instance and the reference, which is slow. */
static void run_everywhere(naive_case *c, const char *name, int all)
{
    ckconv_plan plan;
    ckconv_options options;
    memset(&options, 0, sizeof options);
    snprintf(test.extra, sizeof test.extra, "golden %s", name);
    options.engine = test_engine();
    options.threads = c->t[0].count % 16 == 0 ? 2 : 1;
    if (naive_plan(c, &plan, &options, NULL)) {
        const ckconv_plan base = plan;
        int32_t index = 0;
        do {
            if (naive_run(c, &plan)) {
                naive_compare(c, name);
            }
        } while (all && test_next_plan(&base, 1, &index, &plan));
    }
    test.extra[0] = 0;
}

/* Values that a written type cannot hold exactly are rounded once, as the library must. */
static void set_allowed(naive_case *c, const golden_array *a)
{
    const test_tensor *t = &c->t[naive_written(c->op)];
    CHECK(a->count == t->count);
    for (int64_t i = 0; i < t->count; i++) {
        c->least[i] = test_round(t->dtype, a->value[i]);
        c->most[i] = c->least[i];
    }
}

static void golden_conv(const golden_row *row)
{
    static const ckconv_op passes[3] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT};
    golden_array read[3] = {read_npy(row->name, "in"), read_npy(row->name, "wei"),
                            read_npy(row->name, "dout")};
    golden_array result[3] = {read_npy(row->name, "out"), read_npy(row->name, "din"),
                              read_npy(row->name, "dwei")};
    test_rng r = test_seed(5);
    regroup(&read[NAIVE_IN], row->g);
    regroup(&read[NAIVE_OUT], row->g);
    regroup(&result[0], row->g);
    regroup(&result[1], row->g);
    for (int i = 0; i < 3 * 4 * GOLDEN_TYPES; i++) {
        const ckconv_op op = passes[i % 3];
        const int layout = i / 3 % 4;
        const int turn = atoi(row->name + 4); /* conv017: the thin table takes other types for each problem */
        if (test_thin() && i >= 3 && (i / 3 + turn) % thin_step() != 0) {
            continue;
        }
        const ckconv_dtype *type = golden_types[i / 12];
        ckconv_conv_desc d;
        naive_case c;
        set_geometry(&d, row);
        const int w = naive_written(op);
        ckconv_tensor *t[3] = {&d.in, &d.wei, &d.out};
        for (int j = 0; j < 3; j++) {
            t[j]->dtype = type[j];
            if (type[NAIVE_IN] == CKCONV_I8) {
                t[j]->dtype = j == w ? CKCONV_I32 : CKCONV_I8;
            }
        }
        set_layouts(&d, layout, &r);
        naive_make(&c, op, &d, 0);
        for (int j = 0; j < 3; j++) {
            if (j != w) {
                CHECK(read[j].count == c.t[j].count);
                test_scatter(&c.t[j], read[j].value);
            }
        }
        set_allowed(&c, &result[i % 3]);
        if (layout == 0 && i / 12 == 0) {
            /* the definition in naive.h, which the other tests trust, against PyTorch */
            naive_sum(&c);
            for (int64_t j = 0; j < c.t[w].count; j++) {
                c.got[j] = c.acc[j];
            }
            test.plan = NULL;
            naive_compare(&c, "naive.h");
        }
        /* all instances for f32, f16 and bf16 in the named layouts */
        run_everywhere(&c, row->name,
                       test_thin() ? turn % 4 == 0 && (i / 3 + turn) % (thin_step() > 14 ? 19 : 7) == 0
                                   : test_full() || (i / 12 < 3 && layout < 3 && test_effort() > 0));
        naive_free(&c);
    }
    for (int i = 0; i < 3; i++) {
        free(read[i].value);
        free(result[i].value);
    }
}

/*------------------------------------------------------------------------------------------------------------
  pairs
*/
static void golden_pair_type(const golden_row *row, const golden_array a[5], ckconv_dtype type, int layout)
{
    ckconv_conv_conv_desc d;
    pair_case p;
    ckconv_plan plan;
    ckconv_options options;
    test_rng r = test_seed(6);
    memset(&d, 0, sizeof d);
    set_geometry(&d.conv0, row);
    d.k1 = atoi(strchr(row->extra, '=') + 1);
    d.conv0.in.dtype = type;
    set_layouts(&d.conv0, layout, &r);
    ckconv_conv_desc second = pair_second_desc(&d);
    set_layouts(&second, layout, &r);
    d.wei1 = second.wei;
    d.out = second.out;
    pair_make(&p, &d, 0, 0, layout % 2, 0);
    test_scatter(&p.first.t[NAIVE_IN], a[0].value);
    test_scatter(&p.first.t[NAIVE_WEI], a[1].value);
    test_scatter(&p.second.t[NAIVE_WEI], a[3].value);
    for (int64_t i = 0; i < a[2].count; i++) {
        p.mid_least[i] = p.mid_most[i] = test_round(type, a[2].value[i]);
    }
    set_allowed(&p.second, &a[4]);
    memset(&options, 0, sizeof options);
    snprintf(test.extra, sizeof test.extra, "golden %s", row->name);
    for (int engine = 0; engine < 3; engine++) {
        options.engine = engine == 0 ? CKCONV_ENGINE_REF : test_engine();
        options.max_workspace = engine == 2 ? -1 : 0;
        if (pair_plan(&p, &plan, &options, NULL) && pair_run(&p, &plan)) {
            pair_compare(&p, row->name);
        }
    }
    test.extra[0] = 0;
    pair_free(&p);
}

static void golden_pair(const golden_row *row)
{
    static const char *const parts[5] = {"in", "wei0", "mid", "wei1", "out"};
    static const ckconv_dtype pair_types[4] = {CKCONV_F32, CKCONV_F16, CKCONV_BF16, CKCONV_F64};
    golden_array a[5];
    for (int i = 0; i < 5; i++) {
        a[i] = read_npy(row->name, parts[i]);
    }
    regroup(&a[0], row->g);
    regroup(&a[2], row->g);
    regroup(&a[4], 1);
    for (int i = 0; i < 16; i++) {
        golden_pair_type(row, a, pair_types[i / 4], i % 4);
    }
    for (int i = 0; i < 5; i++) {
        free(a[i].value);
    }
}

/*------------------------------------------------------------------------------------------------------------
  group norms
*/
static const char *const norm_parts[NORM_TENSORS] = {"in",   "out",     "din",    "gamma", "beta",
                                                     "mean", "inv_std", "dgamma", "dbeta"};

static void golden_norm_type(const golden_row *row, const golden_array *a, const golden_array *dout, int type,
                             int layout)
{
    static const ckconv_dtype types[4] = {CKCONV_F64, CKCONV_F32, CKCONV_F16, CKCONV_BF16};
    /* of the largest value of the tensor */
    static const double tolerance[4] = {1e-13, 2e-6, 2e-3, 1.6e-2};
    static const ckconv_layout layouts[4] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW, CKCONV_STRIDED};
    ckconv_groupnorm_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = (int32_t)row->ndim;
    d.g = row->g;
    d.n = row->n;
    d.c = row->c;
    memcpy(d.input, row->input, sizeof d.input);
    d.eps = atof(strchr(row->extra, '=') + 1);
    d.param_per_image = strstr(row->extra, "per-image") != NULL;
    for (int i = 0; i < NORM_ACTS; i++) {
        char act[32];
        snprintf(act, sizeof act, "act=%s", ckconv_element_name(norm_acts[i].act));
        d.act = strstr(row->extra, act) != NULL ? norm_acts[i].act : d.act;
    }
    d.in.dtype = types[type];
    d.in.layout = layouts[layout];
    if (layout == 3) {
        int64_t length[6] = {d.g, d.n, d.c, d.input[0], d.input[1], d.input[2]};
        test_rng r = test_seed(7);
        test_gap_strides(&r, d.ndim, length, d.in.stride);
    }
    for (int i = 0; i < 6; i++) {
        norm_case c;
        ckconv_plan plan;
        ckconv_options options;
        const ckconv_op op = i % 2 == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD;
        memset(&options, 0, sizeof options);
        options.engine = i / 2 == 0 ? CKCONV_ENGINE_REF : test_engine();
        options.max_workspace = i / 2 == 2 ? -1 : 0;
        norm_make(&c, op, &d, NORM_ALL, 0);
        test_scatter(&c.t[NORM_X], a[NORM_X].value);
        test_scatter(&c.t[NORM_GAMMA], a[NORM_GAMMA].value);
        test_scatter(&c.t[NORM_BETA], a[NORM_BETA].value);
        test_scatter(&c.t[NORM_Y], dout->value);
        test_scatter(&c.t[NORM_MEAN], a[NORM_MEAN].value);
        test_scatter(&c.t[NORM_INV_STD], a[NORM_INV_STD].value);
        snprintf(test.extra, sizeof test.extra, "golden %s", row->name);
        if (norm_plan(&c, &plan, &options, NULL) && norm_run(&c, &plan)) {
            for (int j = 0; j < NORM_TENSORS; j++) {
                if (norm_is_written(&c, j)) {
                    memcpy(c.expect[j], a[j].value, (size_t)a[j].count * sizeof(double));
                    const double error = norm_error(&c, j);
                    CHECK_MSG(error <= tolerance[type], "%s: %s is off by %.3g of its largest value",
                              row->name, norm_name(j), error);
                }
            }
        }
        test.extra[0] = 0;
        norm_free(&c);
    }
}

static void golden_norm(const golden_row *row)
{
    golden_array a[NORM_TENSORS];
    golden_array dout = read_npy(row->name, "dout");
    for (int i = 0; i < NORM_TENSORS; i++) {
        a[i] = read_npy(row->name, norm_parts[i]);
    }
    regroup(&a[NORM_X], row->g);
    regroup(&a[NORM_Y], row->g);
    regroup(&a[NORM_DX], row->g);
    regroup(&dout, row->g);
    for (int i = 0; i < 16; i++) {
        golden_norm_type(row, a, &dout, i / 4, i % 4);
    }
    for (int i = 0; i < NORM_TENSORS; i++) {
        free(a[i].value);
    }
    free(dout.value);
}

int main(int argc, char **argv)
{
    char path[512];
    char line[512];
    int rows = 0;
    test_begin("test_golden");
    const char *environment = getenv("CKCONV_GOLDEN");
    folder = argc > 1 ? argv[1] : environment != NULL ? environment : folder;
    snprintf(path, sizeof path, "%s/manifest.tsv", folder);
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        give_up(path, "cannot be read");
        return 1;
    }
    while (fgets(line, (int)sizeof line, f) != NULL) {
        golden_row row;
        if (!parse_row(line, &row)) {
            continue;
        }
        rows++;
        if (strcmp(row.op, "conv") == 0) {
            golden_conv(&row);
        } else if (strcmp(row.op, "conv_conv") == 0) {
            golden_pair(&row);
        } else {
            golden_norm(&row);
        }
    }
    fclose(f);
    test.plan = NULL;
    CHECK_MSG(rows == 78, "%d golden problems instead of 78", rows);
    return test_end();
}
