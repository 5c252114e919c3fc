/* test_epilogue.c - element operations on every tensor, and epilogues with D tensors of any type, layout and
   stride
   SPDX-License-Identifier: MIT

   Operands are small integers and parameters are dyadic, so that everything but exp and erf is exact; those
   may be a few units of f32 off before the one rounding. Shapes include strides above the filter and pads
   above it, so that some written pixels and weights get no product at all: the epilogue acts there too. */
#define _POSIX_C_SOURCE 200809L
#include "naive.h"

static const ckconv_op passes[3] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT};
static ckconv_device devices[3];
static int device_count;

typedef struct shape_row {
    int32_t ndim;
    int64_t g, n, k, c, filter[3], input[3], stride, lo, hi;
} shape_row;

static const shape_row shapes[] = {
    {2, 1, 2, 19, 7, {3, 2, 0}, {7, 6, 0}, 1, 1, 1}, /* dense */
    {2, 3, 2, 5, 4, {2, 2, 0}, {9, 8, 0}, 3, 0, 1},  /* stride above the filter: pixels without taps */
    {2, 21, 2, 1, 1, {3, 3, 0}, {8, 7, 0}, 2, 1, 1}, /* depthwise */
    {1,
     1,
     3,
     4,
     33,
     {3, 0, 0},
     {5, 0, 0},
     2,
     4,
     5}, /* pads above the filter: taps and outputs without input */
    {3, 2, 1, 6, 3, {1, 2, 2}, {4, 3, 5}, 2, 0, 0},   /* 3D */
    {1, 18, 2, 2, 1, {2, 0, 0}, {11, 0, 0}, 4, 0, 0}, /* depthwise with a multiplier */
};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

/* in, wei, out; for i8 the written tensor is i32 when the third entry says so. */
static const ckconv_dtype types[][3] = {
    {CKCONV_F32, CKCONV_F32, CKCONV_F32},
    {CKCONV_F16, CKCONV_F16, CKCONV_F16},
    {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16},
    {CKCONV_F64, CKCONV_F64, CKCONV_F64},
    {CKCONV_I8, CKCONV_I8, CKCONV_I8},
    {CKCONV_I8, CKCONV_I8, CKCONV_I32},
    {CKCONV_BF16, CKCONV_F32, CKCONV_BF16},
    {CKCONV_F8E4M3, CKCONV_F8E5M2, CKCONV_F16},
    {CKCONV_F8E5M2FNUZ, CKCONV_F8E4M3FNUZ, CKCONV_F8E4M3FNUZ},
};
#define TYPES ((int)(sizeof types / sizeof types[0]))

static void make_desc(ckconv_conv_desc *d, const shape_row *s, const ckconv_dtype *type, ckconv_op op)
{
    test_layer(d, s->ndim, s->g, s->n, s->k, s->c);
    for (int i = 0; i < (int)s->ndim; i++) {
        d->filter[i] = s->filter[i];
        d->input[i] = s->input[i];
        d->stride[i] = s->stride;
        d->pad_lo[i] = s->lo;
        d->pad_hi[i] = s->hi;
    }
    ckconv_tensor *t[3] = {&d->in, &d->wei, &d->out};
    for (int i = 0; i < 3; i++) {
        t[i]->dtype = type[i] == CKCONV_I32 ? CKCONV_I8 : type[i];
    }
    if (type[2] == CKCONV_I32) {
        t[naive_written(op)]->dtype = CKCONV_I32;
    }
}

static void set_layouts(ckconv_conv_desc *d, test_rng *r)
{
    static const ckconv_layout data[4] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW, CKCONV_STRIDED};
    static const ckconv_layout wei[3] = {CKCONV_GKYXC, CKCONV_GKCYX, CKCONV_STRIDED};
    ckconv_tensor *t[3] = {&d->in, &d->wei, &d->out};
    for (int i = 0; i < 3; i++) {
        int64_t length[6];
        t[i]->layout = i == NAIVE_WEI ? wei[test_below(r, 3)] : data[test_below(r, 4)];
        if (t[i]->layout == CKCONV_STRIDED) {
            naive_lengths(d, i, length);
            test_gap_strides(r, d->ndim, length, t[i]->stride);
        }
    }
}

static ckconv_element_op *written_op(ckconv_conv_desc *d, ckconv_op op)
{
    return op == CKCONV_FWD ? &d->op_out : op == CKCONV_BWD_DATA ? &d->op_in : &d->op_wei;
}

/* Dyadic parameters that change something for small integers. */
static void set_parameters(ckconv_element_op *op)
{
    const int clamp = op->kind == CKCONV_CLAMP || op->kind == CKCONV_CLAMP_BWD;
    op->alpha = clamp ? -1.5 : op->kind == CKCONV_BILINEAR ? -0.5 : 0.25;
    op->beta = clamp ? 2.5 : 3.0;
    test_trim_element(op);
}

/* with_instances: every instance, else the planner's choice. */
static void run_case(naive_case *c, int index, int with_instances, const char *what)
{
    ckconv_plan base;
    ckconv_plan plan;
    ckconv_options options;
    memset(&options, 0, sizeof options);
    options.engine = test_engine();
    options.threads = index % 16 == 0 ? 2 : 1;
    if (!naive_plan(c, &base, &options, &devices[index % device_count])) {
        return;
    }
    int32_t next = 0;
    plan = base;
    do {
        if (naive_run(c, &plan)) {
            naive_compare(c, what);
        }
    } while (with_instances && test_next_plan(&base, 1, &next, &plan));
    options.split_k = 3; /* the epilogue acts once, on the finished sum */
    ckconv_error err;
    if (ckconv_plan_again(&plan, &base, &options, &err) == CKCONV_OK && naive_run(c, &plan)) {
        naive_compare(c, what);
    }
}

static void fill(naive_case *c, test_rng *r)
{
    for (int i = 0; i < 3; i++) {
        if (i != naive_written(c->op)) {
            naive_fill_integers(&c->t[i], r, -3, 3);
        }
    }
    for (int i = 0; i < (int)c->desc.num_d; i++) {
        naive_fill_integers(&c->d[i], r, -6, 6);
    }
    naive_compute_expected(c);
}

/*------------------------------------------------------------------------------------------------------------
  every operation on every tensor
*/
static void part_operations(void)
{
    int number = 0;
    for (int i = 0; i < 3 * TYPES * SHAPES * 3 * TEST_UNARY; i++) {
        const ckconv_op op = passes[i % 3];
        const ckconv_dtype *type = types[i / 3 % TYPES];
        const shape_row *shape = &shapes[i / 3 / TYPES % SHAPES];
        const int which = i / 3 / TYPES / SHAPES % 3;
        const ckconv_element kind = test_elements[i / 9 / TYPES / SHAPES].kind;
        if (op == CKCONV_FWD ? 0 : type[2] != CKCONV_I32 && test_size(type[2]) != test_size(type[0])) {
            continue; /* fp8 to f16 is a forward row */
        }
        if (test_effort() == 0 && i % 11 != 0) {
            continue;
        }
        ckconv_conv_desc d;
        naive_case c;
        test_rng r = test_seed((uint64_t)i + 1);
        make_desc(&d, shape, type, op);
        set_layouts(&d, &r);
        ckconv_element_op *ops[3] = {&d.op_in, &d.op_wei, &d.op_out};
        ops[which]->kind = kind;
        set_parameters(ops[which]);
        naive_make(&c, op, &d, 0);
        fill(&c, &r);
        run_case(&c, number++, i % 4 == 0, ckconv_element_name(kind));
        naive_free(&c);
    }
    printf("operations: %d problems\n", number);
}

/*------------------------------------------------------------------------------------------------------------
  every epilogue x types of D x layouts of D
*/
enum { D_LAYOUTS = 8 };

/* 0: as the written tensor; 1..3 named layouts; 4: CHANNEL; 5: strided with gaps; 6: one value; 7: zero
   strides over all but one dimension. Weights have their own two layouts and no CHANNEL. */
static void set_d(ckconv_tensor *t, const ckconv_conv_desc *d, int w, int kind, test_rng *r)
{
    static const ckconv_layout data[5] = {0, CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW, CKCONV_CHANNEL};
    static const ckconv_layout wei[5] = {0, CKCONV_GKYXC, CKCONV_GKCYX, CKCONV_GKYXC, CKCONV_GKCYX};
    int64_t length[6];
    if (kind < 5) {
        t->layout = w == NAIVE_WEI ? wei[kind] : data[kind];
        return;
    }
    t->layout = CKCONV_STRIDED;
    naive_lengths(d, w, length);
    if (kind == 5) {
        test_gap_strides(r, d->ndim, length, t->stride);
    } else if (kind == 7) {
        t->stride[test_below(r, 3 + d->ndim)] = test_range(r, 1, 3);
    }
}

static void part_d(void)
{
    enum { KINDS = TEST_WITH_D - TEST_UNARY };
    static const ckconv_dtype d_types[10] = {
        0,         CKCONV_F32, CKCONV_F16,    CKCONV_BF16,       CKCONV_F64,
        CKCONV_I8, CKCONV_I32, CKCONV_F8E4M3, CKCONV_F8E5M2FNUZ, CKCONV_F8E5M2};
    int number = 0;
    for (int i = 0; i < KINDS * 10 * D_LAYOUTS * 3 * TYPES; i++) {
        const ckconv_op op = passes[i % 3];
        const ckconv_dtype *type = types[i / 3 % TYPES];
        const ckconv_element kind = test_elements[TEST_UNARY + i / 3 / TYPES % KINDS].kind;
        const int layout = i / 3 / KINDS / TYPES % D_LAYOUTS;
        const int d_type = i / 3 / KINDS / TYPES / D_LAYOUTS;
        if (op == CKCONV_FWD ? 0 : type[2] != CKCONV_I32 && test_size(type[2]) != test_size(type[0])) {
            continue;
        }
        if (test_effort() == 0 && i % 23 != 0) {
            continue;
        }
        ckconv_conv_desc d;
        naive_case c;
        test_rng r = test_seed((uint64_t)i + 5000);
        make_desc(&d, &shapes[test_below(&r, SHAPES)], type, op);
        set_layouts(&d, &r);
        ckconv_element_op *epilogue = written_op(&d, op);
        epilogue->kind = kind;
        set_parameters(epilogue);
        const int needs = naive_needs_d(kind);
        d.num_d = (int32_t)(needs > 0 ? needs : test_range(&r, 1, 4));
        for (int j = 0; j < (int)d.num_d; j++) {
            d.d[j].dtype = d_types[(d_type + 3 * j) % 10];
            set_d(&d.d[j], &d, naive_written(op), (layout + 3 * j) % D_LAYOUTS, &r);
        }
        naive_make(&c, op, &d, (size_t)(i % 5 == 0));
        fill(&c, &r);
        run_case(&c, number++, i % 4 == 0, ckconv_element_name(kind));
        naive_free(&c);
    }
    printf("epilogues: %d problems\n", number);
}

/*------------------------------------------------------------------------------------------------------------
  D0 is the written tensor itself: out = alpha * acc + beta * out
*/
static void part_alias(void)
{
    int number = 0;
    for (int i = 0; i < 3 * SHAPES * TYPES * 2; i++) {
        const ckconv_op op = passes[i % 3];
        const ckconv_dtype *type = types[i / 3 % TYPES];
        if (op == CKCONV_FWD ? 0 : type[2] != CKCONV_I32 && test_size(type[2]) != test_size(type[0])) {
            continue;
        }
        ckconv_conv_desc d;
        naive_case c;
        ckconv_plan base;
        ckconv_plan plan;
        ckconv_options options;
        ckconv_error err;
        test_rng r = test_seed((uint64_t)i + 9000);
        make_desc(&d, &shapes[i / 3 / TYPES % SHAPES], type, op);
        set_layouts(&d, &r);
        const int w = naive_written(op);
        ckconv_element_op *epilogue = written_op(&d, op);
        epilogue->kind = i % 2 == 0 ? CKCONV_BILINEAR : CKCONV_ADD;
        set_parameters(epilogue);
        d.num_d = 1;
        if (i >= 3 * SHAPES * TYPES) { /* said in full: the same type and strides */
            d.d[0] = *naive_tensor(&d, w);
        }
        naive_make(&c, op, &d, 0);
        fill(&c, &r);
        memset(&options, 0, sizeof options);
        options.engine = test_engine();
        if (!naive_plan(&c, &base, &options, &devices[i % device_count])) {
            naive_free(&c);
            continue;
        }
        int32_t next = 0;
        plan = base;
        do {
            test_buffer workspace;
            test_tensor *out = &c.t[w];
            test_buffer_make(&workspace, (size_t)plan.workspace_bytes, 0);
            memset(workspace.data, 0xFF, workspace.bytes);
            test_poison(out);
            double *v = test_doubles(out->count);
            test_gather(&c.d[0], v);
            test_scatter(out, v);
            ckconv_args a = naive_args(&c);
            a.d[0] = test_data(out);
            test.plan = &plan;
            if (CHECK_OK(test_run(&plan, &a, workspace.data, workspace.bytes, NULL, &err), err)) {
                test_gather(out, c.got);
                naive_compare(&c, "D0 is the output");
                CHECK(test_gaps_intact(out) && test_guards_intact(&out->buffer) &&
                      test_guards_intact(&workspace));
            }
            free(v);
            test_buffer_free(&workspace);
        } while (test_next_plan(&base, 1, &next, &plan));
        number++;
        naive_free(&c);
    }
    printf("in place: %d problems\n", number);
}

/*------------------------------------------------------------------------------------------------------------
  outputs that kernels write by lines (aligned, channels a multiple of 8; or channels first, positions so),
  with D tensors that lie as the output, that have one number for each channel, and that lie nearly so: one of
  these lies otherwise
*/
static const shape_row line_shapes[] = {
    {2, 1, 2, 64, 64, {3, 3, 0}, {9, 8, 0}, 1, 1, 1},     /* dense */
    {2, 1, 3, 72, 40, {1, 1, 0}, {6, 7, 0}, 1, 0, 0},     /* pointwise */
    {2, 1, 2, 128, 64, {3, 3, 0}, {11, 7, 0}, 2, 1, 1},   /* phases in bwd_data */
    {2, 1, 2, 8, 136, {2, 2, 0}, {8, 8, 0}, 2, 0, 0},     /* stride as the filter */
    {2, 4, 2, 16, 16, {3, 3, 0}, {9, 10, 0}, 1, 1, 1},    /* groups side by side */
    {2, 2, 1, 32, 32, {3, 3, 0}, {17, 18, 0}, 1, 1, 1},   /* and down rows */
    {3, 4, 1, 8, 8, {3, 3, 3}, {4, 5, 6}, 1, 1, 1},       /* and planes */
    {2, 1, 1, 64, 256, {3, 3, 0}, {4, 4, 0}, 1, 1, 1},    /* few positions: parts of the reduction */
    {2, 1, 2, 16, 3, {16, 16, 0}, {32, 48, 0}, 16, 0, 0}, /* patches: pixels of a row are channels */
    {2, 1, 2, 64, 3, {7, 7, 0}, {16, 16, 0}, 2, 3, 3},    /* a first layer */
    {2, 32, 2, 1, 1, {3, 3, 0}, {9, 12, 0}, 1, 1, 1},     /* depthwise: down columns */
    {2, 64, 1, 1, 1, {5, 5, 0}, {9, 9, 0}, 1, 2, 2},      /* rows in LDS */
    {2, 40, 1, 1, 1, {3, 3, 0}, {14, 9, 0}, 2, 1, 1},     /* strips */
    {2, 24, 1, 1, 1, {7, 7, 0}, {12, 20, 0}, 1, 3, 3},    /* on the matrix unit */
    {3, 32, 1, 1, 1, {3, 3, 3}, {4, 6, 8}, 1, 1, 1},      /* planes */
    {1, 16, 2, 1, 1, {9, 0, 0}, {64, 0, 0}, 1, 4, 4},     /* long rows */
    {1, 1, 2, 24, 48, {3, 0, 0}, {33, 0, 0}, 1, 1, 1},    /* 1D */
    {2, 1, 3, 192, 64, {1, 1, 0}, {9, 24, 0}, 1, 0, 0},   /* channels first: a product for each image */
    {1, 1, 2, 64, 192, {1, 0, 0}, {152, 0, 0}, 1, 0, 0},
    {2, 5, 3, 1, 1, {3, 3, 0}, {14, 9, 0}, 1, 1, 1}, /* depthwise, planes in LDS: several in a block */
    {2, 6, 2, 1, 1, {5, 5, 0}, {15, 12, 0}, 2, 2, 2},
    {2, 7, 1, 1, 1, {7, 7, 0}, {11, 13, 0}, 1, 3, 3},
    {2, 2, 1, 1, 1, {3, 3, 0}, {71, 115, 0}, 1, 1, 1}, /* and bands of them */
};
#define LINE_SHAPES ((int)(sizeof line_shapes / sizeof line_shapes[0]))
enum { LINE_FORMS = 8, LINE_FIRST = 6 }; /* the last ones are channels first */

/* 0, 1: a number for each channel, of the output's type or f32; 2, 3: as the output, likewise; 4: one number;
   5: every other number of a vector; 6: as the output but for one stride; 7: a vector that is not aligned. */
static void set_line(ckconv_tensor *t, const ckconv_conv_desc *d, int w, int form, test_rng *r)
{
    int64_t length[6];
    const int axis = 2; /* of the channels, with those of groups beside it */
    naive_lengths(d, w, length);
    t->layout = CKCONV_STRIDED;
    t->dtype = form == 1 || form == 3 || form == 5 ? CKCONV_F32 : 0;
    if (form == 2 || form == 3) {
        t->layout = 0;
    } else if (form == 6) {
        test_gap_strides(r, d->ndim, length, t->stride);
    } else if (form != 4) {
        const int64_t step = form == 5 ? 2 : 1;
        t->stride[axis] = step;
        t->stride[0] = step * length[axis];
    }
}

static void part_lines(void)
{
    static const ckconv_dtype line_types[4] = {CKCONV_BF16, CKCONV_F16, CKCONV_F32, CKCONV_I8};
    enum { KINDS = TEST_WITH_D };
    const int few = test_thin() && test_variable("CKCONV_TEST_QUICK") ? 409 : 113; /* one in so many */
    int number = 0;
    for (int i = 0; i < KINDS * LINE_FORMS * LINE_SHAPES * 2 * 4; i++) {
        const ckconv_element kind = test_elements[i % KINDS].kind;
        const int form = i / KINDS % LINE_FORMS;
        const shape_row *shape = &line_shapes[i / KINDS / LINE_FORMS % LINE_SHAPES];
        const ckconv_op op = passes[i / KINDS / LINE_FORMS / LINE_SHAPES % 2];
        const ckconv_dtype dtype = line_types[i / KINDS / LINE_FORMS / LINE_SHAPES / 2];
        const ckconv_dtype type[3] = {dtype, dtype, dtype};
        const int needs = naive_needs_d(kind);
        if ((kind < CKCONV_BILINEAR && form != 0) || (dtype == CKCONV_I8 && form > 3) ||
            (test_effort() < 2 && (i / 7 + i) % (test_effort() == 0 ? few : 7) != 0)) {
            continue;
        }
        ckconv_conv_desc d;
        naive_case c;
        test_rng r = test_seed((uint64_t)i + 12000);
        make_desc(&d, shape, type, op);
        const int w = naive_written(op);
        if (i % 5 == 4 || shape >= line_shapes + LINE_SHAPES - LINE_FIRST) {
            d.in.layout = d.out.layout = CKCONV_NGCHW;
        }
        ckconv_element_op *epilogue = written_op(&d, op);
        epilogue->kind = kind;
        set_parameters(epilogue);
        d.num_d = (int32_t)(kind < CKCONV_BILINEAR ? 0 : needs > 0 ? needs : 1 + i % 3);
        for (int j = 0; j < (int)d.num_d; j++) {
            set_line(&d.d[j], &d, w, j == 0 ? form : (form + 2 * j) % LINE_FORMS, &r);
        }
        naive_make(&c, op, &d, (size_t)(form == 7));
        fill(&c, &r);
        run_case(&c, number++, 1, ckconv_element_name(kind));
        naive_free(&c);
    }
    printf("lines: %d problems\n", number);
}

/* First layers, of which 80 channels are a block and a part; few channels and one tap, whose planes are of
   eights and of fours, and whose channels are no eights. */
static const shape_row channel_shapes[] = {
    {2, 1, 2, 80, 3, {3, 3, 0}, {9, 16, 0}, 1, 1, 1},  {2, 1, 1, 48, 1, {5, 5, 0}, {16, 32, 0}, 2, 2, 2},
    {2, 1, 2, 24, 16, {1, 1, 0}, {6, 12, 0}, 1, 0, 0}, {2, 1, 3, 44, 56, {1, 1, 0}, {4, 10, 0}, 1, 0, 0},
    {2, 1, 2, 56, 72, {1, 1, 0}, {6, 8, 0}, 1, 0, 0},
};
#define CHANNEL_SHAPES ((int)(sizeof channel_shapes / sizeof channel_shapes[0]))

/* These, and depthwise layers, of both orders, in each of their kernels: numbers of channels that differ, a
   residual, two of them. */
static void part_channels(void)
{
    static const ckconv_element kinds[] = {CKCONV_SCALE_SHIFT, CKCONV_BIAS_RESIDUAL_RELU, CKCONV_RELU_BWD,
                                           CKCONV_ADD};
    static const ckconv_dtype channel_types[2] = {CKCONV_BF16, CKCONV_F32};
    int number = 0;
    for (int i = 0; i < 4 * 2 * 2 * 2 * (LINE_SHAPES + CHANNEL_SHAPES); i++) {
        const int line = i / 32 < LINE_SHAPES;
        const shape_row *shape = line ? &line_shapes[i / 32] : &channel_shapes[i / 32 - LINE_SHAPES];
        const ckconv_op op = passes[i / 16 % 2];
        const ckconv_dtype dtype = channel_types[i / 8 % 2], type[3] = {dtype, dtype, dtype};
        const int thin = test_thin() || test_effort() == 0, large = shape->input[1] > 100 || shape->ndim != 2;
        if ((line && (shape->k != 1 || shape->c != 1 || shape->g == 1)) ||
            (i % 4 == 2) != (op == CKCONV_BWD_DATA) ||
            (thin && (large || (dtype == CKCONV_F32 && i % 4 != 0)))) {
            continue;
        }
        ckconv_conv_desc d;
        naive_case c;
        test_rng r = test_seed((uint64_t)i + 13000);
        make_desc(&d, shape, type, op);
        d.in.layout = d.out.layout = i / 4 % 2 ? CKCONV_NGCHW : CKCONV_NHWGC;
        ckconv_element_op *epilogue = written_op(&d, op);
        epilogue->kind = kinds[i % 4];
        set_parameters(epilogue);
        d.num_d = i % 4 == 2 ? 1 : 2;
        for (int j = 0; j < (int)d.num_d; j++) {
            const int residual = i % 4 >= 2 || (i % 4 == 1 && j == 1);
            set_line(&d.d[j], &d, naive_written(op), residual ? 2 : j, &r);
        }
        naive_make(&c, op, &d, 0);
        fill(&c, &r);
        run_case(&c, number++, 1, ckconv_element_name(epilogue->kind));
        naive_free(&c);
    }
    printf("channels: %d problems\n", number);
}

/* test_epilogue [lines]: that part alone */
int main(int argc, char **argv)
{
    test_begin("test_epilogue");
    device_count = test_cpu_devices(devices);
    if (argc < 2 || strcmp(argv[1], "lines") != 0) {
        part_operations();
        part_d();
        part_alias();
    }
    part_lines();
    part_channels();
    return test_end();
}
