/* What the planner expects of networks: for each network of a table the modelled time of its layers on named
   targets, nothing of which needs a GPU, beside the roof: the larger of what multiply-adds take at the
   target's peak and bytes at its bandwidth (core/target.h), each tensor once.
       cc -O2 -Isrc bench/model.c -o build/model -lm
       build/model [--targets gfx942,gfx950] [--table bench/nets.tsv] [--dtype bf16] [--first] [--plans]
   Channels last unless --first; forward and both gradients (bwd_data where grad_in is 1), biases included.
   --plans prints every layer's plan instead, for comparing two versions of the planner.
   SPDX-License-Identifier: MIT */
#define CKCONV_IMPLEMENTATION
#include "ckconv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NETS = 64, FIELDS = 15 };

typedef struct total {
    char net[32];
    double modelled, roof;
    int refused;
} total;

static int triple(const char *text, int64_t *out)
{
    long long a = 0, b = 0, c = 0;
    int count = sscanf(text, "%lld,%lld,%lld", &a, &b, &c);
    out[0] = a;
    out[1] = b;
    out[2] = c;
    return count > 0;
}

static ckconv_status make(char *field[], ckconv_op op, ckconv_dtype dtype, int first,
                          const ckconv_device *device, ckconv_plan *plan, ckconv_error *err)
{
    const int32_t ndim = atoi(field[3]);
    if (!strcmp(field[2], "groupnorm")) {
        ckconv_groupnorm_desc d;
        memset(&d, 0, sizeof d);
        d.ndim = ndim;
        d.g = atoll(field[4]);
        d.n = atoll(field[5]);
        d.c = atoll(field[7]);
        triple(field[9], d.input);
        d.eps = 1e-5;
        d.in.dtype = dtype;
        d.in.layout = first ? CKCONV_NGCHW : CKCONV_NHWGC;
        d.param_dtype = CKCONV_F32;
        return ckconv_plan_groupnorm(plan, op == CKCONV_FWD ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD, &d,
                                     NULL, device, err);
    }
    ckconv_conv_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = ndim;
    d.g = atoll(field[4]);
    d.n = atoll(field[5]);
    d.k = atoll(field[6]);
    d.c = atoll(field[7]);
    triple(field[8], d.filter);
    triple(field[9], d.input);
    triple(field[10], d.stride);
    triple(field[11], d.dilation);
    triple(field[12], d.pad_lo);
    triple(field[12], d.pad_hi);
    d.in.dtype = dtype;
    d.in.layout = first ? CKCONV_NGCHW : CKCONV_NHWGC;
    d.wei.layout = first ? CKCONV_GKCYX : CKCONV_GKYXC;
    if (atoi(field[13]) && op == CKCONV_FWD) {
        d.op_out.kind = CKCONV_BIAS;
        d.num_d = 1;
        d.d[0].layout = CKCONV_CHANNEL;
    }
    d.dbias = atoi(field[13]) && op == CKCONV_BWD_WEIGHT ? dtype : 0;
    return ckconv_plan_conv(plan, op, &d, NULL, device, err);
}

/* Seconds at the device's peak, or at its bandwidth. */
static double roof(const ckconv_device *device, ckconv_dtype type, const ckconv_plan *plan)
{
    const ckci_figures *f = ckci_find_figures(device->arch, device->compute_units);
    const double half = f->half > 0 ? f->half : f->vector, single = f->single > 0 ? f->single : f->vector;
    const double rate = (type == CKCONV_F32 ? single : half) * f->mhz * 1e6 * f->units;
    const double work = (double)plan->flop / 2 / rate, bytes = (double)plan->bytes / (f->gbytes * 1e9);
    return work > bytes ? work : bytes;
}

static void print_plan(const char *target, const char *dtype, int first, char *field[], const ckconv_plan *p,
                       const ckconv_error *err)
{
    printf("%s %s %s op%d", target, dtype, first ? "first" : "last", (int)p->op);
    for (int i = 0; i < FIELDS; i++) {
        printf(" %s", field[i]);
    }
    if (err->status) {
        printf(" %s\n", err->text);
        return;
    }
    printf(" %s split %d ws %lld grid %lld,%lld,%lld block %d launches %d\n",
           ckconv_instance_name(p->instance), (int)p->split_k, (long long)p->workspace_bytes,
           (long long)p->grid[0], (long long)p->grid[1], (long long)p->grid[2], (int)p->block[0],
           (int)p->launches);
}

static int run(const char *table, const char *target, const char *dtype, int first, int plans)
{
    static total totals[NETS];
    static char line[1024];
    ckconv_device device;
    ckconv_error err;
    int nets = 0;
    FILE *file = fopen(table, "r");
    if (!file || ckconv_device_named(target, &device, &err) != CKCONV_OK) {
        fprintf(stderr, "model: %s\n", file ? err.text : "no such table");
        return 2;
    }
    if (!plans && !ckci_find_figures(device.arch, device.compute_units)) {
        fprintf(stderr, "model: %s has no figures in core/target.h\n", target);
        fclose(file);
        return 2;
    }
    const ckconv_dtype type = !strcmp(dtype, "f16")    ? CKCONV_F16
                              : !strcmp(dtype, "bf16") ? CKCONV_BF16
                                                       : CKCONV_F32;
    memset(totals, 0, sizeof totals);
    while (fgets(line, sizeof line, file)) {
        char *field[FIELDS];
        int fields = 0;
        line[strcspn(line, "\n")] = 0;
        for (char *at = line; at && fields < FIELDS; fields++) {
            field[fields] = at;
            at = strchr(at, '\t');
            if (at) {
                *at++ = 0;
            }
        }
        if (fields < FIELDS || !strcmp(field[0], "net")) {
            continue;
        }
        int net = 0;
        while (net < nets && strcmp(totals[net].net, field[0])) {
            net++;
        }
        if (net == nets && nets < NETS) {
            snprintf(totals[nets++].net, sizeof totals[0].net, "%s", field[0]);
        }
        static const ckconv_op ops[] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT};
        for (int i = 0; i < 3; i++) {
            ckconv_plan plan;
            if ((ops[i] == CKCONV_BWD_DATA && !plans && !atoi(field[14])) ||
                (ops[i] == CKCONV_BWD_WEIGHT && !strcmp(field[2], "groupnorm"))) {
                continue;
            }
            memset(&err, 0, sizeof err);
            make(field, ops[i], type, first, &device, &plan, &err);
            if (plans) {
                plan.op = ops[i];
                print_plan(target, dtype, first, field, &plan, &err);
            } else if (err.status) {
                totals[net].refused++;
            } else {
                totals[net].modelled += atof(field[1]) * ckconv_plan_seconds(&plan);
                totals[net].roof += atof(field[1]) * roof(&device, type, &plan);
            }
        }
    }
    fclose(file);
    for (int i = 0; i < nets && !plans; i++) {
        printf("%s\t%s\t%.2f\t%.2f\t%.2f\t%d\n", target, totals[i].net, totals[i].modelled * 1e3,
               totals[i].roof * 1e3, totals[i].roof / totals[i].modelled, totals[i].refused);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *table = "bench/nets.tsv", *dtype = "bf16", *targets = "gfx942,gfx950,gfx1100";
    int first = 0, plans = 0, status = 0;
    for (int i = 1; i < argc; i++) {
        const int more = i + 1 < argc;
        if (!strcmp(argv[i], "--first")) {
            first = 1;
        } else if (!strcmp(argv[i], "--plans")) {
            plans = 1;
        } else if (more && !strcmp(argv[i], "--targets")) {
            targets = argv[++i];
        } else if (more && !strcmp(argv[i], "--table")) {
            table = argv[++i];
        } else if (more && !strcmp(argv[i], "--dtype")) {
            dtype = argv[++i];
        } else {
            fprintf(stderr, "model: '%s'\n", argv[i]);
            return 2;
        }
    }
    if (!plans) {
        printf("target\tnet\tmodelled_ms\troof_ms\troof/modelled\trefused\n");
    }
    for (const char *at = targets; *at && !status;) {
        char name[32];
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        status = run(table, name, dtype, first, plans);
        at += length + (at[length] == ',');
    }
    return status;
}
