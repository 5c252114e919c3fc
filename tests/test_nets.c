/* test_nets.c - plans of the layers of real networks: where a GPU has a matrix unit, they run on it
   SPDX-License-Identifier: MIT

   bench/nets.tsv: every convolution of 19 networks, each with the bias that its network has, in three passes,
   two types, both orders of memory, on seven targets. Given the workspace that its plan asks for, no layer
   with more than 4 channels per group on both sides runs on portable multiply-adds (instances gpu_vector_...
   and gpu_direct_...; depthwise kernels read and write each number once and need no matrix unit). */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

typedef struct net_row {
    char net[32];
    int count, bias, grad;
    ckconv_conv_desc d;
} net_row;

/* z,y,x or fewer numbers. */
static void numbers(const char *text, int64_t *v)
{
    for (int i = 0; i < 3 && *text != '\0'; i++) {
        char *end;
        v[i] = strtoll(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
}

/* A line of the table (changed on the way); 0 if it is no convolution. */
static int read_row(char *line, net_row *row)
{
    char *field[15];
    int fields = 0;
    for (char *word = strtok(line, "\t\n"); word != NULL && fields < 15; word = strtok(NULL, "\t\n")) {
        field[fields++] = word;
    }
    if (fields < 15 || strcmp(field[2], "conv") != 0) {
        return 0;
    }
    memset(row, 0, sizeof *row);
    snprintf(row->net, sizeof row->net, "%s", field[0]);
    row->count = atoi(field[1]);
    row->d.ndim = atoi(field[3]);
    row->d.g = atoll(field[4]);
    row->d.n = atoll(field[5]);
    row->d.k = atoll(field[6]);
    row->d.c = atoll(field[7]);
    numbers(field[8], row->d.filter);
    numbers(field[9], row->d.input);
    numbers(field[10], row->d.stride);
    numbers(field[11], row->d.dilation);
    numbers(field[12], row->d.pad_lo);
    numbers(field[12], row->d.pad_hi);
    row->bias = atoi(field[13]);
    row->grad = atoi(field[14]);
    return 1;
}

/* test_nets [TABLE] [-v]: -v lists the layers on portable kernels */
int main(int argc, char **argv)
{
    static const char *const targets[] = {"gfx90a",  "gfx942", "gfx950", "gfx1100",
                                          "gfx1201", "sm_80",  "sm_90"};
    static const ckconv_op passes[3] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT};
    const char *path = argc > 1 && strcmp(argv[1], "-v") != 0 ? argv[1] : "bench/nets.tsv";
    const int verbose = argc > 1 && strcmp(argv[argc - 1], "-v") == 0;
    char line[512];
    test_begin("test_nets");
    FILE *f = fopen(path, "r");
    if (!CHECK_MSG(f != NULL, "cannot read %s", path)) {
        return test_end();
    }
    /* layers of other networks: patches, dilation in 1D and 3D, large filters along one axis */
    static const char *const more[] = {
        "vit_16\t1\tconv\t2\t1\t64\t768\t3\t16,16\t224,224\t16,16\t1,1\t0,0\t1\t0\n",
        "vit_14\t1\tconv\t2\t1\t32\t1024\t3\t14,14\t224,224\t14,14\t1,1\t0,0\t1\t0\n",
        "video_patches\t1\tconv\t3\t1\t8\t768\t3\t2,16,16\t16,224,224\t2,16,16\t1,1,1\t0,0,0\t1\t0\n",
        "tcn\t1\tconv\t1\t1\t8\t128\t128\t3\t16000\t1\t512\t512\t1\t1\n",
        "dilated_3d\t1\tconv\t3\t1\t2\t64\t64\t3,3,3\t24,64,64\t1,1,1\t4,8,8\t4,8,8\t1\t1\n",
        "long_filter\t1\tconv\t1\t1\t16\t64\t64\t101\t4000\t1\t1\t50\t1\t1\n",
    };
    long plans = 0, portable = 0;
    for (size_t extra = 0;;) {
        net_row row;
        if (fgets(line, sizeof line, f) == NULL) {
            if (extra == sizeof more / sizeof more[0]) {
                break;
            }
            snprintf(line, sizeof line, "%s", more[extra++]);
        }
        if (!read_row(line, &row)) {
            continue;
        }
        for (int i = 0; i < 3 * 2 * 2 * 7; i++) {
            const ckconv_op op = passes[i % 3];
            const char *target = targets[i / 12];
            ckconv_conv_desc d = row.d;
            ckconv_device device;
            ckconv_plan plan;
            ckconv_error err;
            d.in.dtype = i / 3 % 2 ? CKCONV_F16 : CKCONV_BF16;
            if (i / 6 % 2) {
                d.in.layout = CKCONV_NGCHW;
                d.wei.layout = CKCONV_GKCYX;
                d.out.layout = CKCONV_NGCHW;
            }
            if (op == CKCONV_FWD && row.bias) {
                d.op_out.kind = CKCONV_BIAS;
                d.num_d = 1;
                d.d[0].layout = CKCONV_CHANNEL;
            }
            if (!CHECK_OK(ckconv_device_named(target, &device, &err), err) ||
                !CHECK_OK(ckconv_plan_conv(&plan, op, &d, NULL, &device, &err), err)) {
                continue;
            }
            plans++;
            const char *name = ckconv_instance_name(plan.instance);
            const int slow = (strncmp(name, "gpu_vector", 10) == 0 || strncmp(name, "gpu_direct", 10) == 0) &&
                             d.k > 4 && d.c > 4;
            portable += slow;
            if (slow && verbose) {
                printf("%s\t%s\t%s\t%s\t%s\tg %d n %d k %d c %d filter %d,%d,%d input %d,%d,%d stride %d "
                       "dilation %d\t%s\n",
                       target, row.net, ckconv_op_name(op), ckconv_dtype_name(d.in.dtype),
                       i / 6 % 2 ? "first" : "last", (int)d.g, (int)d.n, (int)d.k, (int)d.c, (int)d.filter[0],
                       (int)d.filter[1], (int)d.filter[2], (int)d.input[0], (int)d.input[1], (int)d.input[2],
                       (int)d.stride[0], (int)d.dilation[0], name);
            }
            CHECK_MSG(!slow, "%s: %s of %s (%s) runs on %s", target, ckconv_op_name(op), row.net,
                      i / 6 % 2 ? "channels first" : "channels last", name);
        }
    }
    fclose(f);
    printf("note: %ld plans, %ld on portable kernels\n", plans, portable);
    return test_end();
}
