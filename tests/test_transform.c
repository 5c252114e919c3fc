/* test_transform.c - ckconv_transform: every layout and type into every other, strides with gaps, refusals
   SPDX-License-Identifier: MIT

   Addresses come from test.h's own strides, values from its own number formats. */
#include "test.h"

/* On the host, or on the GPU when that is under test. */
static ckconv_status move(int32_t ndim, const int64_t *length, const ckconv_tensor *src_desc, void *src,
                          const ckconv_tensor *dst_desc, void *dst, ckconv_error *err)
{
    if (!test_on_gpu()) {
        return ckconv_transform(ndim, length, src_desc, src, dst_desc, dst, NULL, err);
    }
    ckconv_device device;
    test_copies copies;
    unsigned char *pointer[2] = {(unsigned char *)src, (unsigned char *)dst};
    ckconv_status status = ckconv_device_gpu(0, &device, err);
    if (status == CKCONV_OK) {
        status = test_upload(&copies, &device, pointer, 2, err);
        if (status == CKCONV_OK) {
            status = ckconv_device_transform(&device, ndim, length, src_desc, pointer[0], dst_desc,
                                             pointer[1], NULL, err);
        }
        status = test_download(&copies, status, err);
    }
    return status;
}

static const ckconv_layout layouts[] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW,
                                        CKCONV_GKYXC, CKCONV_GKCYX, CKCONV_STRIDED};
enum { LAYOUTS = (int)(sizeof layouts / sizeof layouts[0]) };

static const int64_t lengths[][6] = {
    {2, 3, 5, 7, 1, 1}, {3, 2, 4, 3, 5, 1}, {2, 2, 3, 2, 3, 4}, {1, 1, 1, 1, 1, 1}, {1, 2, 17, 1, 9, 1},
};
enum { SHAPES = (int)(sizeof lengths / sizeof lengths[0]) };
static const int32_t shape_ndim[SHAPES] = {1, 2, 3, 3, 2};

/* Values that make every pair of types round, saturate or overflow somewhere. */
static double some_value(test_rng *r)
{
    static const double odd[] = {0.0,          -0.0,          0.5,   1.5,     2.5,       -0.5,    127.5,
                                 -128.5,       448.0,         464.0, 57344.0, 61440.0,   65504.0, 65520.0,
                                 1e-8,         -1e-8,         240.0, 248.0,   1.0 / 3.0, 1.0625,  16777217.0,
                                 3000000000.0, -3000000000.0, 1e39,  1e300,   6e-8};
    const int64_t which = test_below(r, 60);
    if (which < (int64_t)(sizeof odd / sizeof odd[0])) {
        return odd[which];
    }
    return which == 30   ? (double)NAN
           : which == 31 ? HUGE_VAL
           : which == 32 ? -HUGE_VAL
                         : 20.0 * test_normal(r);
}

static void describe(test_rng *r, ckconv_tensor *t, ckconv_dtype dtype, ckconv_layout layout, int32_t ndim,
                     const int64_t *length, int64_t *stride)
{
    memset(t, 0, sizeof *t);
    t->dtype = dtype;
    t->layout = layout;
    if (layout == CKCONV_STRIDED) {
        test_gap_strides(r, ndim, length, stride);
        memcpy(t->stride, stride, sizeof(int64_t) * (size_t)(3 + ndim));
    } else {
        test_layout_strides(layout, ndim, length, stride);
    }
}

static int same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

/* One conversion; 1 when every element arrived and nothing else was written. */
static int convert(test_rng *r, int32_t ndim, const int64_t *length, ckconv_dtype from,
                   ckconv_layout from_layout, ckconv_dtype to, ckconv_layout to_layout, char *why,
                   size_t size)
{
    ckconv_tensor src_desc, dst_desc;
    int64_t src_stride[6], dst_stride[6];
    describe(r, &src_desc, from, from_layout, ndim, length, src_stride);
    describe(r, &dst_desc, to, to_layout, ndim, length, dst_stride);
    test_tensor src, dst;
    test_tensor_make(&src, from, 3 + (int)ndim, length, src_stride,
                     (size_t)(test_below(r, 2) * test_below(r, 4)));
    test_tensor_make(&dst, to, 3 + (int)ndim, length, dst_stride,
                     (size_t)(test_below(r, 2) * test_below(r, 4)));
    double *x = test_doubles(src.count), *y = test_doubles(src.count);
    for (int64_t i = 0; i < src.count; i++) {
        x[i] = some_value(r);
    }
    test_scatter(&src, x);
    test_gather(&src, x); /* what src really holds */
    unsigned char *before = (unsigned char *)malloc(src.buffer.bytes);
    memcpy(before, test_data(&src), src.buffer.bytes);
    ckconv_error err;
    int good = move(ndim, length, &src_desc, test_data(&src), &dst_desc, test_data(&dst), &err) == CKCONV_OK;
    if (!good) {
        snprintf(why, size, "%s", err.text);
    }
    test_gather(&dst, y);
    for (int64_t i = 0; good && i < src.count; i++) {
        unsigned char bytes[8];
        test_encode(to, x[i], bytes);
        const double want = test_decode(to, bytes);
        good = same(y[i], want);
        if (!good) {
            snprintf(why, size, "element %lld: %a became %a, want %a", (long long)i, x[i], y[i], want);
        }
    }
    if (good && memcmp(before, test_data(&src), src.buffer.bytes) != 0) {
        good = 0;
        snprintf(why, size, "the source was changed");
    }
    if (good &&
        !(test_guards_intact(&dst.buffer) && test_guards_intact(&src.buffer) && test_gaps_intact(&dst))) {
        good = 0;
        snprintf(why, size, "bytes between or beside the elements were written");
    }
    free(x);
    free(y);
    free(before);
    test_tensor_free(&src);
    test_tensor_free(&dst);
    return good;
}

static void test_all_pairs(void)
{
    test_rng r = test_seed(77);
    for (int s = 0; s < SHAPES; s++) {
        for (int a = 0; a < LAYOUTS; a++) {
            for (int b = 0; b < LAYOUTS; b++) {
                for (ckconv_dtype from = CKCONV_F64; from <= CKCONV_I32; from++) {
                    for (ckconv_dtype to = CKCONV_F64; to <= CKCONV_I32; to++) {
                        char why[300] = "";
                        CHECK_MSG(convert(&r, shape_ndim[s], lengths[s], from, layouts[a], to, layouts[b],
                                          why, sizeof why),
                                  "shape %d, %s %s to %s %s: %s", s, ckconv_layout_name(layouts[a]),
                                  ckconv_dtype_name(from), ckconv_layout_name(layouts[b]),
                                  ckconv_dtype_name(to), why);
                    }
                }
            }
        }
    }
}

/* Tensors large enough for kernels that move pieces and tiles: dimensions longer than a tile, with tails,
   those that are not a multiple of a piece, those where the pieces of one tensor only are aligned, and
   rows with gaps between them. */
static void test_tiles(void)
{
    static const int64_t shapes[][6] = {
        {1, 2, 72, 8, 16}, {1, 2, 67, 7, 11},  {1, 3, 64, 5, 13},  {1, 2, 29, 8, 8},
        {3, 2, 24, 4, 9},  {2, 1, 131, 12, 6}, {1, 1, 128, 9, 29},
    };
    static const ckconv_dtype pairs[][2] = {
        {CKCONV_F64, CKCONV_F64},    {CKCONV_F32, CKCONV_F32},        {CKCONV_F16, CKCONV_F16},
        {CKCONV_I8, CKCONV_I8},      {CKCONV_I32, CKCONV_I32},        {CKCONV_F32, CKCONV_F16},
        {CKCONV_F16, CKCONV_F32},    {CKCONV_BF16, CKCONV_F16},       {CKCONV_F32, CKCONV_BF16},
        {CKCONV_F64, CKCONV_BF16},   {CKCONV_F64, CKCONV_F32},        {CKCONV_F16, CKCONV_F64},
        {CKCONV_I8, CKCONV_F16},     {CKCONV_F32, CKCONV_I8},         {CKCONV_F64, CKCONV_F8E4M3},
        {CKCONV_F8E5M2, CKCONV_F32}, {CKCONV_F16, CKCONV_F8E4M3FNUZ}, {CKCONV_F8E4M3, CKCONV_F8E5M2FNUZ},
        {CKCONV_I32, CKCONV_F32},    {CKCONV_F16, CKCONV_BF16},
    };
    test_rng r = test_seed(78);
    const int count = (int)(sizeof pairs / sizeof pairs[0]);
    for (int s = 0; s < (int)(sizeof shapes / sizeof shapes[0]); s++) {
        for (int a = 0; a < LAYOUTS; a++) {
            for (int b = 0; b < LAYOUTS; b++) {
                /* where it is slow, some: each pair of types meets each shape and each layout */
                for (int t = 0; t < count; t++) {
                    if (test_on_gpu() && test_effort() < 2 && (s + 2 * a + 3 * b + t) % 6 != 0) {
                        continue;
                    }
                    char why[300] = "";
                    CHECK_MSG(convert(&r, 2, shapes[s], pairs[t][0], layouts[a], pairs[t][1], layouts[b], why,
                                      sizeof why),
                              "tiles: shape %d, %s %s to %s %s: %s", s, ckconv_layout_name(layouts[a]),
                              ckconv_dtype_name(pairs[t][0]), ckconv_layout_name(layouts[b]),
                              ckconv_dtype_name(pairs[t][1]), why);
                }
            }
        }
    }
}

/* What is turned by way of LDS: rows of whole lines, odd ones on either side and on both, several tiles,
   short dimensions that are one run with their neighbours (images of three channels, filters, small planes),
   and all of them once more between strides with gaps. */
static void test_turns(void)
{
    static const int64_t shapes[][6] = {
        {1, 2, 128, 10, 32}, {1, 2, 100, 17, 17}, {1, 2, 131, 17, 17}, {1, 2, 3, 24, 48},  {1, 3, 3, 29, 31},
        {1, 2, 200, 3, 3},   {1, 2, 333, 3, 3},   {1, 3, 136, 5, 5},   {1, 2, 88, 14, 14}, {1, 2, 136, 7, 7},
        {3, 2, 32, 12, 12},  {2, 1, 20, 9, 40},   {1, 2, 18, 9, 40},   {1, 2, 2, 25, 61},  {1, 1, 600, 1, 2},
        {1, 2, 136, 17, 17}, {4, 2, 12, 23, 23},
    };
    static const ckconv_dtype pairs[][2] = {
        {CKCONV_F16, CKCONV_F16},  {CKCONV_F32, CKCONV_F32},        {CKCONV_I8, CKCONV_I8},
        {CKCONV_F64, CKCONV_F64},  {CKCONV_F32, CKCONV_F16},        {CKCONV_F16, CKCONV_F32},
        {CKCONV_F32, CKCONV_BF16}, {CKCONV_BF16, CKCONV_F32},       {CKCONV_BF16, CKCONV_F16},
        {CKCONV_F32, CKCONV_I8},   {CKCONV_F8E4M3, CKCONV_F32},     {CKCONV_F64, CKCONV_F32},
        {CKCONV_F32, CKCONV_F64},  {CKCONV_F16, CKCONV_F8E5M2FNUZ}, {CKCONV_F16, CKCONV_BF16},
    };
    static const ckconv_layout from[] = {CKCONV_NGCHW, CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_STRIDED};
    static const ckconv_layout to[] = {CKCONV_NHWGC, CKCONV_NGCHW, CKCONV_NGCHW, CKCONV_NGCHW};
    test_rng r = test_seed(79);
    const int count = (int)(sizeof pairs / sizeof pairs[0]);
    for (int s = 0; s < (int)(sizeof shapes / sizeof shapes[0]); s++) {
        for (int t = 0; t < count; t++) {
            for (int way = 0; way < 4; way++) {
                if ((test_on_gpu() && test_effort() < 2 && t > 1 && (s + t) % 3 != 0) ||
                    (way > 1 && (s + t) % 4 != 0)) {
                    continue; /* where it is slow, some */
                }
                char why[300] = "";
                CHECK_MSG(
                    convert(&r, 2, shapes[s], pairs[t][0], from[way], pairs[t][1], to[way], why, sizeof why),
                    "turns: shape %d, %s %s to %s %s: %s", s, ckconv_layout_name(from[way]),
                    ckconv_dtype_name(pairs[t][0]), ckconv_layout_name(to[way]),
                    ckconv_dtype_name(pairs[t][1]), why);
            }
        }
    }
}

/* Rows that are no whole pieces of 16 bytes, strided to strided in one type, with a gap after each row and
   each image: every element arrives, gaps stay. */
static void test_broken_rows(void)
{
    static const ckconv_dtype types[] = {CKCONV_F32, CKCONV_F16, CKCONV_I8, CKCONV_F64, CKCONV_BF16};
    static const int64_t rows[][3] = {{5, 8, 8},    {5, 8, 16},  {3, 4, 4},    {6, 8, 8}, {7, 7, 8},
                                      {12, 16, 16}, {9, 16, 16}, {20, 24, 32}, {5, 6, 6}, {17, 20, 18}};
    for (int i = 0; i < 10 * 5 * 3; i++) {
        const int64_t *row = rows[i / 15], offset = i % 3 == 2 ? 1 : 0;
        const ckconv_dtype type = types[i / 3 % 5];
        const int64_t length[6] = {1, 2, row[0], 3, 4, 1};
        ckconv_tensor desc[2];
        test_tensor t[2];
        ckconv_error err;
        int wrong = 0;
        for (int j = 0; j < 2; j++) {
            const int64_t pixel = row[1 + j], line = 4 * pixel + (i % 3 == 1 ? 8 : 0);
            const int64_t stride[6] = {3 * line * 3, 3 * line + 16, 1, line, pixel, 0};
            memset(&desc[j], 0, sizeof desc[j]);
            desc[j].dtype = type;
            desc[j].layout = CKCONV_STRIDED;
            memcpy(desc[j].stride, stride, 5 * sizeof stride[0]);
            test_tensor_make(&t[j], type, 5, length, stride, (size_t)offset * test_size(type));
        }
        double *x = test_doubles(t[0].count), *y = test_doubles(t[0].count);
        for (int64_t j = 0; j < t[0].count; j++) {
            x[j] = (double)(j % 61 - 30);
        }
        test_scatter(&t[0], x);
        CHECK_OK(move(2, length, &desc[0], test_data(&t[0]), &desc[1], test_data(&t[1]), &err), err);
        test_gather(&t[1], y);
        for (int64_t j = 0; j < t[0].count; j++) {
            wrong += x[j] != y[j];
        }
        CHECK_MSG(wrong == 0 && test_guards_intact(&t[1].buffer) && test_gaps_intact(&t[1]),
                  "%s, rows of %lld, pixels %lld and %lld apart: %d elements of %lld are wrong, or a gap is",
                  ckconv_dtype_name(type), (long long)row[0], (long long)row[1], (long long)row[2], wrong,
                  (long long)t[0].count);
        free(x);
        free(y);
        test_tensor_free(&t[0]);
        test_tensor_free(&t[1]);
    }
}

/* There and back gives the same bits when the type on the way is at least as wide. */
static void test_round_trip(void)
{
    const int64_t length[6] = {3, 2, 5, 4, 3, 1};
    const ckconv_dtype narrow[] = {CKCONV_F16, CKCONV_BF16, CKCONV_F8E4M3, CKCONV_F8E5M2FNUZ, CKCONV_I8};
    const ckconv_dtype wide[] = {CKCONV_F32, CKCONV_F64};
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 2; j++) {
            ckconv_tensor a, b;
            ckconv_error err;
            unsigned char from[720], back[720];
            double middle[360];
            memset(&a, 0, sizeof a);
            memset(&b, 0, sizeof b);
            memset(from, 0, sizeof from);
            memset(back, 0xC7, sizeof back);
            a.dtype = narrow[i];
            a.layout = CKCONV_NGCHW;
            b.dtype = wide[j];
            b.layout = CKCONV_GNHWC;
            const size_t bytes = 360 * test_size(narrow[i]);
            for (int n = 0; n < 360; n++) {
                test_encode(narrow[i], (double)(n % 23 - 11), from + (size_t)n * test_size(narrow[i]));
            }
            CHECK_OK(ckconv_transform(2, length, &a, from, &b, middle, NULL, &err), err);
            CHECK_OK(ckconv_transform(2, length, &b, middle, &a, back, NULL, &err), err);
            CHECK_MSG(memcmp(from, back, bytes) == 0, "%s by way of %s", ckconv_dtype_name(narrow[i]),
                      ckconv_dtype_name(wide[j]));
        }
    }
}

/* dtype 0 is f32 and layout 0 the same on both sides: a plain copy. */
static void test_defaults(void)
{
    const int64_t length[4] = {2, 3, 4, 5};
    ckconv_tensor zero;
    ckconv_error err;
    float x[120], y[120];
    memset(&zero, 0, sizeof zero);
    for (int i = 0; i < 120; i++) {
        x[i] = (float)i + 0.25f;
        y[i] = -1.0f;
    }
    CHECK_OK(ckconv_transform(1, length, &zero, x, &zero, y, NULL, &err), err);
    CHECK(memcmp(x, y, sizeof x) == 0);
    CHECK(err.text[0] == 0);
}

typedef struct refusal {
    const char *what;
    ckconv_status status;
    const char *word; /* that must be in the text */
    int32_t ndim;
    int64_t length[4];
    ckconv_tensor src, dst;
} refusal;

static const refusal refusals[] = {
    {"ndim 0", CKCONV_ERR_ARGUMENT, "ndim is 0", 0, {2, 2, 2, 2}, {0, 0, {0}}, {0, 0, {0}}},
    {"ndim 4", CKCONV_ERR_ARGUMENT, "ndim is 4", 4, {2, 2, 2, 2}, {0, 0, {0}}, {0, 0, {0}}},
    {"ndim < 0", CKCONV_ERR_ARGUMENT, "ndim is -3", -3, {2, 2, 2, 2}, {0, 0, {0}}, {0, 0, {0}}},
    {"length < 0", CKCONV_ERR_ARGUMENT, "length[2] is -2", 1, {2, 2, -2, 2}, {0, 0, {0}}, {0, 0, {0}}},
    {"huge", CKCONV_ERR_OVERFLOW, "2^62", 1, {1 << 30, 1 << 30, 1 << 30, 2}, {0, 0, {0}}, {0, 0, {0}}},
    {"src type", CKCONV_ERR_ARGUMENT, "src_desc.dtype is 11", 1, {2, 2, 2, 2}, {11, 0, {0}}, {0, 0, {0}}},
    {"dst type", CKCONV_ERR_ARGUMENT, "dst_desc.dtype is -1", 1, {2, 2, 2, 2}, {0, 0, {0}}, {-1, 0, {0}}},
    {"src layout", CKCONV_ERR_ARGUMENT, "src_desc.layout is 8", 1, {2, 2, 2, 2}, {0, 8, {0}}, {0, 0, {0}}},
    {"dst layout", CKCONV_ERR_ARGUMENT, "dst_desc.layout is -7", 1, {2, 2, 2, 2}, {0, 0, {0}}, {0, -7, {0}}},
    {"dst channel", CKCONV_ERR_ARGUMENT, "dst_desc.layout is 6", 1, {2, 2, 2, 2}, {0, 0, {0}}, {0, 6, {0}}},
    {"src stride",
     CKCONV_ERR_ARGUMENT,
     "src_desc.stride[3] is -1",
     1,
     {2, 2, 2, 2},
     {0, 7, {8, 4, 2, -1}},
     {0, 0, {0}}},
    {"dst stride",
     CKCONV_ERR_ARGUMENT,
     "dst_desc.stride[1] is 0",
     1,
     {2, 2, 2, 2},
     {0, 0, {0}},
     {0, 7, {8, 0, 2, 1}}},
    {"overlap", CKCONV_ERR_ARGUMENT, "dst_desc.stride", 1, {2, 2, 2, 2}, {0, 0, {0}}, {0, 7, {8, 4, 1, 1}}},
    {"past rank",
     CKCONV_ERR_ARGUMENT,
     "src_desc.stride[4] is 1",
     1,
     {2, 2, 2, 2},
     {0, 7, {8, 4, 2, 1, 1}},
     {0, 0, {0}}},
};

static void test_refusals(void)
{
    unsigned char dst[256];
    float src[64];
    ckconv_error err;
    memset(src, 0, sizeof src);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        memset(dst, 0xC7, sizeof dst);
        const ckconv_status status =
            ckconv_transform(r->ndim, r->length, &r->src, src, &r->dst, dst, NULL, &err);
        CHECK_MSG(status == r->status && err.status == status, "%s: status %d (%s), want %d", r->what,
                  (int)status, err.text, (int)r->status);
        CHECK_MSG(strstr(err.text, r->word) != NULL, "%s: \"%s\" does not say \"%s\"", r->what, err.text,
                  r->word);
        CHECK_MSG(test_all_bytes(dst, sizeof dst, 0xC7), "%s: dst was written", r->what);
        CHECK(ckconv_transform(r->ndim, r->length, &r->src, src, &r->dst, dst, NULL, NULL) == r->status);
    }
    const int64_t length[4] = {2, 2, 2, 2};
    ckconv_tensor t;
    memset(&t, 0, sizeof t);
    CHECK(ckconv_transform(1, NULL, &t, src, &t, dst, NULL, &err) == CKCONV_ERR_NULL &&
          strstr(err.text, "length"));
    CHECK(ckconv_transform(1, length, NULL, src, &t, dst, NULL, &err) == CKCONV_ERR_NULL &&
          strstr(err.text, "src"));
    CHECK(ckconv_transform(1, length, &t, NULL, &t, dst, NULL, &err) == CKCONV_ERR_NULL &&
          strstr(err.text, "src"));
    CHECK(ckconv_transform(1, length, &t, src, NULL, dst, NULL, &err) == CKCONV_ERR_NULL &&
          strstr(err.text, "dst"));
    CHECK(ckconv_transform(1, length, &t, src, &t, NULL, NULL, &err) == CKCONV_ERR_NULL &&
          strstr(err.text, "dst"));
    /* 16 floats at src, overlapping from both ends; touching is fine */
    float copy[64];
    memcpy(copy, src, sizeof src);
    CHECK(ckconv_transform(1, length, &t, src + 15, &t, src, NULL, &err) == CKCONV_ERR_ALIAS &&
          err.text[0] != 0);
    CHECK(ckconv_transform(1, length, &t, src, &t, src + 15, NULL, &err) == CKCONV_ERR_ALIAS);
    CHECK(ckconv_transform(1, length, &t, src, &t, src, NULL, &err) == CKCONV_ERR_ALIAS);
    CHECK(memcmp(copy, src, sizeof src) == 0);
    CHECK_OK(ckconv_transform(1, length, &t, src, &t, src + 16, NULL, &err), err);
    CHECK_OK(ckconv_transform(1, length, &t, src + 16, &t, src, NULL, &err), err);
}

/* A length of 0 is an empty tensor: nothing to do. */
static void test_empty(void)
{
    unsigned char dst[64];
    float src[16] = {0};
    ckconv_error err;
    ckconv_tensor t;
    memset(&t, 0, sizeof t);
    memset(dst, 0xC7, sizeof dst);
    const int64_t length[4] = {2, 0, 2, 2};
    CHECK_OK(ckconv_transform(1, length, &t, src, &t, dst, NULL, &err), err);
    CHECK(test_all_bytes(dst, sizeof dst, 0xC7));
}

int main(void)
{
    test_begin("test_transform");
    test_all_pairs();
    test_tiles();
    test_turns();
    test_broken_rows();
    test_round_trip();
    test_defaults();
    test_refusals();
    test_empty();
    return test_end();
}
