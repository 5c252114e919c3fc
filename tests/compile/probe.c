/* probe SWITCH: what the switch dropped must answer UNSUPPORTED and name it; all the rest must work. One
   object is linked with every implementation, so a switch that changed a declaration would show. SWITCH may
   be none or all.
   SPDX-License-Identifier: MIT */
#include "ckconv.h"

#include <stdio.h>
#include <string.h>

static const char *dropped;
static int wrong;

static int is_dropped(const char *its_switch)
{
    if (strcmp(its_switch, "none") == 0) {
        return 0;
    }
    return strcmp(its_switch, dropped) == 0 || strcmp("all", dropped) == 0;
}

static void expect(const char *what, const char *its_switch, ckconv_status status, const ckconv_error *err)
{
    const int good = is_dropped(its_switch)
                         ? status == CKCONV_ERR_UNSUPPORTED && strstr(err->text, its_switch) != NULL
                         : status == CKCONV_OK;
    if (!good) {
        printf("%s with %s: status %d, \"%s\"\n", what, dropped, (int)status, err->text);
        wrong = 1;
    }
}

static void conv(const char *what, const char *its_switch, ckconv_dtype in, ckconv_dtype out,
                 ckconv_dtype compute)
{
    ckconv_conv_desc d;
    ckconv_plan plan;
    ckconv_error err;
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.n = d.k = d.c = 1;
    d.filter[0] = d.input[0] = 1;
    d.in.dtype = in;
    d.out.dtype = out;
    d.compute_in = compute;
    d.compute_wei = in == CKCONV_F32 ? compute : 0;
    unsigned char x[8], y[8], z[8];
    const double one = 1.0;
    double back = 0.0;
    const ckconv_status status = ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, NULL, &err);
    expect(what, its_switch, status, &err);
    if (status == CKCONV_OK) {
        ckconv_from_double(in, &one, x, 1);
        ckconv_from_double(in, &one, y, 1);
        expect(what, its_switch, ckconv_fwd(&d, x, y, z, NULL, 0, NULL, &err), &err);
        ckconv_to_double(out, z, &back, 1);
        if (back < 1.0 || back > 1.0) {
            printf("%s with %s: 1 * 1 is %g\n", what, dropped, back);
            wrong = 1;
        }
    }
}

/* Of two switches that both drop it the one of the operation speaks. */
static void groupnorm(const char *what, const char *its_switch, ckconv_op op, ckconv_dtype dtype)
{
    ckconv_groupnorm_desc d;
    ckconv_plan plan;
    ckconv_error err;
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.n = d.c = 1;
    d.input[0] = 4;
    d.eps = 1e-5;
    d.in.dtype = dtype;
    if (is_dropped("CKCONV_NO_GROUPNORM")) {
        its_switch = "CKCONV_NO_GROUPNORM";
    }
    expect(what, its_switch, ckconv_plan_groupnorm(&plan, op, &d, NULL, NULL, &err), &err);
}

static void conv_conv(const char *what, const char *its_switch)
{
    ckconv_conv_conv_desc d;
    ckconv_plan plan;
    ckconv_error err;
    memset(&d, 0, sizeof d);
    d.conv0.ndim = 1;
    d.conv0.n = d.conv0.k = d.conv0.c = d.k1 = 1;
    d.conv0.filter[0] = d.conv0.input[0] = 1;
    expect(what, its_switch, ckconv_plan_conv_conv(&plan, &d, NULL, NULL, &err), &err);
}

static void transform(const char *what, const char *its_switch, ckconv_dtype dtype)
{
    const int64_t length[4] = {1, 1, 1, 1};
    ckconv_tensor src, dst;
    ckconv_error err;
    const float x = 1.0f;
    unsigned char y[8];
    memset(&src, 0, sizeof src);
    memset(&dst, 0, sizeof dst);
    dst.dtype = dtype;
    expect(what, its_switch, ckconv_transform(1, length, &src, &x, &dst, y, NULL, &err), &err);
}

int main(int argc, char **argv)
{
    ckconv_device cpu;
    dropped = argc > 1 ? argv[1] : "none";
    conv("f32", "none", CKCONV_F32, CKCONV_F32, 0);
    conv("f32 in tf32", "none", CKCONV_F32, CKCONV_F32, CKCONV_TF32);
    conv("f16", "none", CKCONV_F16, CKCONV_F16, 0);
    conv("bf16", "none", CKCONV_BF16, CKCONV_BF16, 0);
    conv("f64", "CKCONV_NO_F64", CKCONV_F64, CKCONV_F64, 0);
    conv("i8", "CKCONV_NO_I8", CKCONV_I8, CKCONV_I8, 0);
    conv("i8 to i32", "CKCONV_NO_I8", CKCONV_I8, CKCONV_I32, 0);
    for (ckconv_dtype fp8 = CKCONV_F8E4M3; fp8 <= CKCONV_F8E5M2FNUZ; fp8++) {
        conv("fp8", "CKCONV_NO_FP8", fp8, fp8, 0);
        conv("fp8 to f32", "CKCONV_NO_FP8", fp8, CKCONV_F32, 0);
        conv("f16 in fp8", "CKCONV_NO_FP8", CKCONV_F16, CKCONV_F16, fp8);
        transform("fp8 transform", "CKCONV_NO_FP8", fp8);
    }
    transform("f64 transform", "CKCONV_NO_F64", CKCONV_F64);
    transform("i8 transform", "CKCONV_NO_I8", CKCONV_I8);
    transform("i32 transform", "CKCONV_NO_I8", CKCONV_I32);
    transform("f16 transform", "none", CKCONV_F16);
    groupnorm("groupnorm_fwd", "none", CKCONV_GROUPNORM_FWD, CKCONV_F32);
    groupnorm("groupnorm_bwd", "none", CKCONV_GROUPNORM_BWD, CKCONV_BF16);
    groupnorm("groupnorm_fwd f64", "CKCONV_NO_F64", CKCONV_GROUPNORM_FWD, CKCONV_F64);
    conv_conv("conv_conv_fwd", "CKCONV_NO_CONV_CONV");
    ckconv_device_cpu(&cpu);
    if (is_dropped("CKCONV_NO_SIMD") && cpu.features != 0) {
        printf("CKCONV_NO_SIMD, but the facts of the CPU show features %d\n", (int)cpu.features);
        wrong = 1;
    }
    return wrong;
}
