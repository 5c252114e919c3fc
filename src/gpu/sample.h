/*------------------------------------------------------------------------------------------------------------
  >>gpu-sample
  Layers of one tap with strides, channels first: other kernels would turn the whole input, of which only
  every stride-th position is read. A launch (>>k-sample) samples these positions into workspace, channels
  first again, and what is left is a layer of one tap without strides, planned like any other. bwd_data writes
  such a tensor, and the launch comes after: it spreads it over din, zeros between. In between nothing is
  rounded but once, to din's type.
*/
#pragma once
#include "gpu/matrix.h"

/* What a piece's 90 instructions take, in multiply-adds; 142 took 6.4 million pieces 40 to 47 us (H200). */
#define CKCI_SAMPLE_STEPS 125.

/* Dimensions of planes that are one dense dimension in both tensors, without a stride, are merged; those of
   one position are left out. step: bytes, of planes and of the dense tensor. Returns how many are left. */
CKCI_FN int ckci_merge_sample(int64_t len[5], int64_t stride[5], int64_t step[2][5])
{
    int dims = 0;
    for (int i = 0; i < 5; i++) {
        const int last = dims - 1;
        if (len[i] == 1) {
            continue;
        }
        /* where `last` has a stride it is shorter in the dense tensor */
        if (dims > 0 && stride[i] == 1 && step[0][i] == step[0][last] * len[last] &&
            step[1][i] == step[1][last] * len[last]) {
            len[last] *= len[i];
            continue;
        }
        len[dims] = len[i];
        stride[dims] = stride[i];
        step[0][dims] = step[0][i];
        step[1][dims] = step[1][i];
        dims++;
    }
    return dims;
}

/* Are both tensors aligned for pieces of so many bytes of rows of planes, and rows whole pieces? */
CKCI_FN int ckci_sample_fits(const unsigned char *const at[2], const int64_t len[5], int64_t step[2][5],
                             int dims, int64_t size, int halve, int64_t piece)
{
    int fits = len[0] * size % piece == 0;
    for (int t = 0; t < 2; t++) {
        const int64_t bytes = t == 1 && halve ? piece / 2 : piece;
        fits = fits && step[t][0] == size && (uintptr_t)at[t] % (uintptr_t)bytes == 0;
        for (int i = 1; i < dims; i++) {
            fits = fits && step[t][i] % bytes == 0;
        }
    }
    return fits;
}

/* The launch. planes: in, or din; dense: their sampled positions. */
CKCI_FN void ckci_make_sample(const ckci_conv *p, const ckci_tensor *dense, ckci_launch *l)
{
    static const int axis[5] = {5, 4, 3, 2, 1}; /* x, y, z, channels, batch */
    const int back = p->op == CKCONV_BWD_DATA;
    const ckci_tensor *planes = &p->t[CKCI_IN];
    const int64_t size = (int64_t)ckci_size(planes->dtype);
    const unsigned char *const at[2] = {planes->p, dense->p};
    ckci_gpu_sample *k = &l->a.sample;
    int64_t len[5], stride[5], step[2][5], count = 1;
    ckci_set_kernel(l, back ? CKCI_KERNEL_spread : CKCI_KERNEL_sample);
    memset(k, 0, sizeof *k);
    k->src = back ? dense->p : planes->p;
    k->dst = back ? planes->p : dense->p;
    for (int i = 0; i < 5; i++) {
        len[i] = planes->len[axis[i]];
        stride[i] = i < 3 ? p->stride[2 - i] : 1;
        step[0][i] = planes->stride[axis[i]] * size;
        step[1][i] = dense->stride[axis[i]] * size;
    }
    k->dims = ckci_merge_sample(len, stride, step);
    k->piece = (int32_t)size;
    if (k->dims > 0 && stride[0] <= 2) {
        const int halve = stride[0] == 2;
        int64_t piece = 16;
        while (piece > size * (halve ? 2 : 1) &&
               !ckci_sample_fits(at, len, step, k->dims, size, halve, piece)) {
            piece /= 2;
        }
        if (ckci_sample_fits(at, len, step, k->dims, size, halve, piece)) {
            k->piece = (int32_t)piece;
            k->halve = halve ? (int32_t)size : 0;
            len[0] = len[0] * size / piece;
            stride[0] = 1;
            step[0][0] = piece;
            step[1][0] = halve ? piece / 2 : piece;
        }
    }
    for (int i = 0; i < k->dims; i++) {
        const int64_t places = back ? len[i] : ckci_ceil_div(len[i], stride[i]);
        count *= places;
        k->by_len[i] = ckci_make_divisor(places);
        k->by_stride[i] = ckci_make_divisor(back ? stride[i] : 1);
        k->src_step[i] = (int32_t)((back ? step[1][i] : step[0][i] * stride[i]) / 2);
        k->dst_step[i] = (int32_t)((back ? step[0][i] : step[1][i]) / 2);
    }
    k->count = (int32_t)count;
    l->grid = ckci_ceil_div(count, CKCI_SAMPLE_BLOCK);
}

/* What it costs: the bytes that it touches, in lines of memory, as moves do (ckci_move_cost), or the
   instructions of its pieces, if those take longer. */
CKCI_FN double ckci_sample_cost(const ckci_conv *p, const ckci_launch *l, int64_t dense,
                                const ckconv_device *device)
{
    const ckci_gpu_sample *k = &l->a.sample;
    const int64_t size = (int64_t)ckci_size(p->t[CKCI_IN].dtype), planes = p->n * p->c,
                  line = device->kind == CKCONV_DEVICE_NVIDIA ? 32 : 64,
                  row = ckci_min(p->input[2] * size, p->output[2] * line);
    const double bytes =
        (double)dense + (p->op == CKCONV_BWD_DATA
                             ? (double)planes * (double)(p->input[0] * p->input[1] * p->input[2] * size)
                             : (double)planes * (double)(p->output[0] * p->output[1] * row));
    const double memory = ckci_move_cost(device, bytes / 2), launch = ckci_move_cost(device, 0),
                 count = launch +
                         ckci_cost_fma(device, CKCI_SAMPLE_STEPS * (double)k->count / ckci_units(device));
    return memory > count ? memory : count;
}

/* The layer without strides, and the launch. */
CKCI_FN ckconv_status ckci_find_sample(const ckci_conv *p, const ckconv_device *device, int64_t limit,
                                       unsigned char *ws, ckci_rest *r, ckconv_error *err)
{
    const ckci_tensor *in = &p->t[CKCI_IN];
    const int back = p->op == CKCONV_BWD_DATA;
    const int64_t size = (int64_t)ckci_size(in->dtype);
    int fits = CKCI_KEEP_SAMPLE && p->g == 1 && p->n > 0 && p->c > 0 && (size == 2 || size == 4) &&
               in->op.kind == CKCONV_PASS && (!back || p->num_d == 0) && in->stride[5] == 1;
    int strides = 0;
    int64_t numbers = ckci_saturating_mul(p->n, p->c);
    for (int i = 0; i < 3; i++) {
        fits = fits && p->filter[i] == 1 && p->pad[i] == 0 && p->output[i] > 0 &&
               p->output[i] == ckci_ceil_div(p->input[i], p->stride[i]);
        strides = strides || (p->stride[i] > 1 && p->input[i] > 1);
        numbers = ckci_saturating_mul(numbers, p->input[i]);
    }
    if (!fits || !strides || numbers > INT32_MAX - CKCI_SAMPLE_BLOCK ||
        ckci_span(in) / 2 > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "positions are sampled for filters of one tap with strides, in one group, channels "
                         "first, of fewer than 2^31 numbers of 2 or 4 bytes within 4 GiB, without pads, "
                         "operations on in, or D tensors of din");
    }
    ckci_conv *c = &r->conv;
    ckci_tensor *dense = &c->t[CKCI_IN];
    *c = *p;
    int64_t next = 1;
    for (int i = 2; i >= 0; i--) {
        c->input[i] = dense->len[3 + i] = p->output[i];
        c->stride[i] = c->dilation[i] = 1;
        dense->stride[3 + i] = next;
        next *= p->output[i];
    }
    dense->stride[2] = next;
    dense->stride[0] = dense->stride[1] = next * p->c;
    const int64_t bytes = dense->stride[1] * p->n * size;
    dense->p = ws;
    r->bytes = ckci_ceil_div(bytes, 256) * 256;
    if (r->bytes > limit) {
        return ckci_over_limit("sampled positions", r->bytes, err);
    }
    ckci_make_sample(p, dense, &r->l);
    r->ns = ckci_sample_cost(p, &r->l, bytes, device);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_sample(ckci_fit *f, ckconv_error *err)
{
    return ckci_fit_rest(f, ckci_find_sample, err);
}

CKCI_FN ckconv_status ckci_list_sample(const ckconv_plan *plan, const ckci_problem *p,
                                       const ckconv_args *args, unsigned char *ws, const ckci_gpu_tile *tile,
                                       const ckci_emitter *e, ckconv_error *err)
{
    (void)args;
    (void)tile;
    return ckci_list_rest(plan, &p->conv, ckci_find_sample, ws, e, err);
}
