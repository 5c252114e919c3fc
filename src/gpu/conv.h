/*------------------------------------------------------------------------------------------------------------
  >>gpu-conv
  What convolutions share, and the kernels for any tensors (kernels/vector/: gather, weight, direct). Here a
  problem becomes the arguments of a launch, 32-bit limits are tested, and the costs of those kernels counted;
  also how bwd_weight is cut into parts, which long sums on matrix units need for their error. It reads facts
  of a device and calls none. Other rooms of gpu/ build on it and know no more of the runtime than
  ckci_launch.
*/
#pragma once
#include "core/layout.h"
#include "core/problem.h"
#include "gpu/costs.h"
#include "gpu/table.h"

/* A convolution that another one, or a pair, consists of is planned like any other, within `limit` bytes of
   workspace. mid: only instances that take the epilogue of a pair's first one. A scratch plan gets instance,
   geometry and workspace. */
CKCI_FN ckconv_status ckci_plan_part(const ckci_conv *p, const ckconv_device *device, int64_t limit, int mid,
                                     ckconv_plan *part, double *cost, ckconv_error *err);
/* Nanoseconds that it takes. */
CKCI_FN double ckci_part_ns(const ckconv_plan *part)
{
    return (double)ckci_max(part->tune[CKCI_TUNE_TIME], 0) / 1000;
}

/* Its launches. */
CKCI_FN ckconv_status ckci_list_part(const ckconv_plan *part, const ckci_conv *p, unsigned char *ws,
                                     const ckci_emitter *e, ckconv_error *err);

/* Both, when a plan runs: `limit` bytes from ws on. */
CKCI_FN ckconv_status ckci_emit_part(const ckconv_device *device, const ckci_conv *p, int64_t limit,
                                     unsigned char *ws, const ckci_emitter *e, ckconv_error *err)
{
    ckconv_plan part;
    double cost;
    CKCI_TRY(ckci_plan_part(p, device, limit, 0, &part, &cost, err));
    part.workspace_bytes += part.workspace_bytes > 0 ? CKCI_ALIGN : 0; /* as a whole plan has it */
    return ckci_list_part(&part, p, ws, e, err);
}

/* The family of a GPU's matrix unit; 0: none. */
CKCI_FN ckconv_family ckci_matrix_family(const ckconv_device *d)
{
    switch (ckci_matrix_unit(d)) {
    case CKCI_UNIT_CDNA1:
    case CKCI_UNIT_CDNA2:
    case CKCI_UNIT_CDNA3:
    case CKCI_UNIT_CDNA4:
        return CKCONV_FAMILY_MFMA;
    case CKCI_UNIT_RDNA3:
    case CKCI_UNIT_RDNA4:
    case CKCI_UNIT_GFX125:
        return CKCONV_FAMILY_WMMA;
    case CKCI_UNIT_MMA:
    case CKCI_UNIT_WGMMA:
        return CKCONV_FAMILY_MMA;
    default:
        return 0;
    }
}

/* Refuses a GPU without the matrix unit of a family. */
CKCI_FN ckconv_status ckci_need_unit(const ckconv_device *d, ckconv_family family, ckconv_error *err)
{
    if (ckci_matrix_family(d) == family) {
        return CKCONV_OK;
    }
    const char *why = ckci_find_architecture(d->arch) ? "" : " (no row in the table of architectures)";
    return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "%s has no %s unit%s", d->arch, ckconv_family_name(family),
                     why);
}

/* bwd_weight on matrix units. An accumulator that takes one product after the other loses a unit in the last
   place with each instruction, half of one where it rounds to nearest; NVIDIA's cuts off, so that all losses
   have one sign. A block whose part has more than WHOLE positions therefore takes so many of them at a time,
   and adds their sums to those before, in the part in memory, which no other block touches; that part has
   no more than PIECES of them where workspace allows as many parts. */
enum { CKCI_SUM_WHOLE = 16384, CKCI_SUM_PIECES = 256 };
CKCI_FN int64_t ckci_sum_chain(const ckconv_device *device)
{
    return device->kind == CKCONV_DEVICE_NVIDIA ? 4096 : 8192;
}

/* The parts that so many positions ask for. */
CKCI_FN int64_t ckci_sum_parts(const ckconv_device *device, int64_t positions)
{
    return ckci_max(ckci_ceil_div(positions, CKCI_SUM_PIECES * ckci_sum_chain(device)), 1);
}

/* Refuses a part of so many positions: rounding of its pieces' sums would show (twice PIECES: parts are cut
   by whole items). */
CKCI_FN ckconv_status ckci_sum_fits(const ckconv_device *device, int64_t positions, ckconv_error *err)
{
    const int64_t most = 2 * CKCI_SUM_PIECES * ckci_sum_chain(device);
    return positions <= most
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_WORKSPACE,
                           "matrix units add up to %lld positions to one sum, here %lld: more parts "
                           "need more workspace, or a larger split_k",
                           CKCI_LL(most), CKCI_LL(positions));
}

/* Of `count` items of a part, `each` positions apiece, those that are a piece; 0: all. */
CKCI_FN int32_t ckci_sum_items(const ckconv_device *device, int64_t count, int64_t each)
{
    return ckci_saturating_mul(count, each) > CKCI_SUM_WHOLE
               ? (int32_t)ckci_max(ckci_sum_chain(device) / ckci_max(each, 1), 1)
               : 0;
}

CKCI_FN ckci_gpu_dim ckci_make_gpu_dim(const ckci_conv *p, int dim)
{
    ckci_gpu_dim d;
    int back = p->op == CKCONV_BWD_DATA;
    int64_t s = p->stride[dim], period = back ? s / ckci_gcd(s, p->dilation[dim]) : 1;
    int64_t length = back ? p->input[dim] : p->output[dim], step = back ? s : 1;
    memset(&d, 0, sizeof d);
    d.phases = (int32_t)(back ? ckci_min(s, length) : 1);
    d.turn = back && s <= length ? (int32_t)((s - p->pad[dim] % s) % s) : 0;
    d.length = (int32_t)length;
    d.stride = (int32_t)s;
    d.dilation = (int32_t)p->dilation[dim];
    d.pad = (int32_t)p->pad[dim];
    d.filter = (int32_t)p->filter[dim];
    d.write_step = (int32_t)step;
    d.period = (int32_t)period;
    d.read_step = (int32_t)(back ? 1 : s);
    d.read_tap = (int32_t)(back ? -(p->dilation[dim] / ckci_gcd(s, p->dilation[dim])) : p->dilation[dim]);
    d.read_len = (int32_t)(back ? p->output[dim] : p->input[dim]);
    d.gather_back = back;
    d.count[0] = ckci_make_divisor(ckci_ceil_div(length, step));
    d.count[1] = ckci_make_divisor(length / step);
    d.taps[0] = ckci_make_divisor(ckci_ceil_div(p->filter[dim], period));
    d.taps[1] = ckci_make_divisor(p->filter[dim] / period);
    d.slip = (int32_t)(p->dilation[dim] % s);
    d.by_stride = ckci_make_divisor(s);
    d.by_period = ckci_make_divisor(period);
    d.by_phases = ckci_make_divisor(d.phases);
    return d;
}

/* Do all offsets inside a slice fit 32 bits? `channels` of step `channel`, positions of the tensor. */
CKCI_FN int32_t ckci_narrow_slice(const ckci_tensor *t, int64_t channels, int64_t channel)
{
    int64_t reach = ckci_saturating_mul(channels - 1, channel);
    for (int i = 3; i < 6; i++) {
        reach = ckci_saturating_add(reach, ckci_saturating_mul(ckci_max(t->len[i] - 1, 0), t->stride[i]));
    }
    return reach <= INT32_MAX;
}

/* May four neighbours along the dimension with stride `channel` be one load, wherever they begin? NULL: the
   pointer is not known yet. */
CKCI_FN int32_t ckci_vector_loads(const ckci_tensor *t, int dim, int64_t channels)
{
    int64_t size = (int64_t)ckci_size(t->dtype);
    int fits =
        channels % 4 == 0 && t->stride[dim] == 1 && (uintptr_t)t->p % (uintptr_t)ckci_min(4 * size, 16) == 0;
    for (int i = 0; i < 6; i++) {
        fits = fits && (i == dim || t->len[i] <= 1 || t->stride[i] % 4 == 0);
    }
    return fits;
}

/* May eight neighbouring columns be one store? */
CKCI_FN int32_t ckci_aligned_columns(const ckci_tensor *t, int64_t columns)
{
    int fits = columns % 8 == 0 && t->stride[2] == 1 && (uintptr_t)t->p % 16 == 0 &&
               (t->dtype == CKCONV_F64 || t->dtype == CKCONV_F32 || t->dtype == CKCONV_F16 ||
                t->dtype == CKCONV_BF16 || t->dtype == CKCONV_I8 || t->dtype == CKCONV_I32);
    for (int i = 0; i < 6; i++) {
        fits = fits && (i == 2 || t->len[i] <= 1 || t->stride[i] % 8 == 0);
    }
    return fits;
}

/* How D tensor d lies beside the written tensor t: a CKCI_LINE, or -1. One number for each channel: its step
   from channel to channel becomes d's stride[2], though K or C be 1. across: channels are rows, the same ones
   in each group. */
CKCI_FN int32_t ckci_find_line(const ckci_tensor *t, int across, ckci_gpu_extra *d)
{
    int known = t->dtype == CKCONV_F64
                    ? d->dtype == CKCONV_F64
                    : d->dtype == CKCONV_F32 || d->dtype == CKCONV_F16 || d->dtype == CKCONV_BF16;
    int channels = known, output = known && (uintptr_t)d->p % 16 == 0;
    for (int i = 0; i < 6; i++) {
        int several = t->len[i] > 1;
        channels = channels && ((across ? i == 5 : i == 0 || i == 2) || !several || d->stride[i] == 0);
        output = output && (!several || d->stride[i] == t->stride[i]);
    }
    if (channels && across) {
        return CKCI_LINE_CHANNELS;
    }
    int64_t step = t->len[2] > 1 ? d->stride[2] : t->len[0] > 1 ? d->stride[0] : 0;
    if (channels && (t->len[0] <= 1 || d->stride[0] == step * t->len[2])) {
        d->stride[2] = step;
        return CKCI_LINE_CHANNELS;
    }
    return output ? CKCI_LINE_OUTPUT : -1;
}

/* Is the epilogue one of the few that every kernel computes? Or (gates) all but near and f64 tiles on AMD? */
CKCI_FN int ckci_few(const ckconv_element_op *op, int gates)
{
    const int32_t few = ckci_find_element(op->kind)->few;
    return few == 1 || (gates && few == 2);
}

/* Is the epilogue the gradient of a curve? Those of relu and clamp are gates. */
CKCI_FN int ckci_curved_gradient(const ckconv_element_op *op)
{
    const ckci_element_row *row = ckci_find_element(op->kind);
    return row->sum == CKCI_SUM_GRADIENT && row->act != CKCONV_RELU && row->act != CKCONV_CLAMP;
}

/* Does a D tensor multiply sums? */
CKCI_FN int ckci_multiplies(const ckci_gpu_target *o)
{
    return o->d[0].how == CKCI_EXTRA_MULTIPLY;
}

/* The form of a target's epilogue, once all else in it is known. Rounding to a type (compute) is storing it
   where it is stored in that type. */
CKCI_FN void ckci_set_form(ckci_gpu_target *o)
{
    const ckconv_element_op *op = &o->t.op;
    const ckci_element_row *row = ckci_find_element(op->kind);
    int one = row->sum == CKCI_SUM_BILINEAR || row->sum == CKCI_SUM_SCALE_ADD;
    const int after = row->sum == CKCI_SUM_AFTER, gradient = row->sum == CKCI_SUM_GRADIENT;
    const int relu = row->act == CKCONV_RELU, clamp = row->act == CKCONV_CLAMP;
    const int curved = !relu && !clamp && row->act != CKCONV_PASS;
    const double no_number = (double)ckci_bits_float(0x7fc00000u);
    double none = 1e308;
    none *= 10; /* infinite */
    o->adds = row->sum == CKCI_SUM_ADD || row->sum == CKCI_SUM_AFFINE || after ? o->num_d : one + gradient;
    o->alpha_d = one || row->sum == CKCI_SUM_SCALED ? op->alpha : 1;
    o->beta_d = row->sum == CKCI_SUM_BILINEAR ? op->beta : 1;
    o->gate_low_d = relu ? 0 : op->alpha;
    o->gate_high_d = clamp ? op->beta : no_number;
    o->low_d = after || gradient || !(relu || clamp) ? -none : o->gate_low_d;
    o->high_d = clamp && !gradient ? op->beta : none;
    o->bounds = o->high_d <= 1e308 ? 2 : o->low_d >= -1e308;
    o->alpha = (float)o->alpha_d;
    o->beta = (float)o->beta_d;
    o->low = (float)o->low_d;
    o->high = (float)o->high_d;
    o->gate_low = (float)o->gate_low_d;
    o->gate_high = (float)o->gate_high_d;
    int plain = op->kind == CKCONV_PASS && !o->scale && !o->shift;
    o->form = plain ? CKCI_FORM_STORE : curved ? CKCI_FORM_CURVED : CKCI_FORM_LINEAR;
    o->form =
        (o->compute && o->compute != o->t.dtype) || ckci_curved_gradient(op) ? CKCI_FORM_SINGLE : o->form;
    for (int32_t j = 0; j < o->num_d; j++) {
        o->d[j].how = row->sum == CKCI_SUM_ADD || (after && j == 0) || (row->sum == CKCI_SUM_AFFINE && j == 1)
                          ? CKCI_EXTRA_ADD
                      : row->sum == CKCI_SUM_AFFINE ? CKCI_EXTRA_MULTIPLY
                      : after                       ? CKCI_EXTRA_AFTER
                      : gradient && !curved         ? CKCI_EXTRA_MASK
                                                    : CKCI_EXTRA_KEEP;
    }
    int outputs = 0;
    o->residual = o->gate = 0;
    for (int32_t j = 0; j < o->adds; j++) {
        o->d[j].line = ckci_find_line(&o->t, o->across, &o->d[j]);
        if (o->d[j].line < 0 || (o->d[j].line == CKCI_LINE_CHANNELS && o->d[j].how >= CKCI_EXTRA_MASK)) {
            o->form = CKCI_FORM_SINGLE;
        }
        if (o->d[j].line == CKCI_LINE_OUTPUT) {
            outputs += o->d[j].dtype == o->t.dtype ? 1 : 2;
            o->residual = j + 1;
            o->gate = o->d[j].how;
        }
    }
    if (o->form != CKCI_FORM_LINEAR || o->scale || o->shift || outputs > (row->sum != CKCI_SUM_AFFINE)) {
        o->residual = CKCI_RESIDUAL_ANY;
    } else if (row->sum == CKCI_SUM_AFFINE) {
        o->residual = CKCI_RESIDUAL_FACTORS;
    }
}

/* What a convolution writes. */
CKCI_FN void ckci_set_target(const ckci_conv *p, ckci_gpu_target *o)
{
    memset(o, 0, sizeof *o);
    o->t = p->t[ckci_written(p->op)];
    o->num_d = p->num_d;
    for (int32_t j = 0; j < p->num_d; j++) {
        o->d[j].p = p->d[j].p;
        o->d[j].dtype = p->d[j].dtype;
        memcpy(o->d[j].stride, p->d[j].stride, sizeof o->d[j].stride);
    }
    ckci_set_form(o);
}

/* Does a D tensor lie as the output, in an epilogue that does not act element by element anyway? */
CKCI_FN int ckci_beside(const ckci_gpu_target *o)
{
    int some = 0;
    for (int32_t j = 0; j < o->adds; j++) {
        some = some || o->d[j].line == CKCI_LINE_OUTPUT;
    }
    return some && o->form != CKCI_FORM_SINGLE;
}

/* Does an epilogue of fwd or bwd_data act element by element whatever the kernel? */
CKCI_FN int ckci_single(const ckci_conv *p)
{
    ckci_gpu_target o;
    ckci_set_target(p, &o);
    return o.form == CKCI_FORM_SINGLE;
}

/* What it takes longer that one acts so: each element waits for the one before, 2.9 ns of a unit (H200, 60
   layers of all families: 2.4 to 4.5). */
CKCI_FN double ckci_single_cost(const ckconv_device *device, const ckci_tensor *written)
{
    return 2.9 * (double)ckci_count(written) / ckci_units(device) * ckci_device_rates(device, 0).round;
}

/* The same of one that acts by lines, where kernels know a shorter way for others (H200: 3.5 ps an element of
   132 units in 3 x 3 layers of 64 channels). */
CKCI_FN double ckci_lines_cost(const ckconv_device *device, const ckci_tensor *written)
{
    return .46 * (double)ckci_count(written) / ckci_units(device) * ckci_device_rates(device, 0).round;
}

/* Do all positions of t, its batch included, follow each other at one distance? *pitch: that distance; of a
   single position any that is aligned as channels are. */
CKCI_FN int ckci_even_positions(const ckci_tensor *t, int64_t *pitch)
{
    static const int axes[4] = {5, 4, 3, 1};
    int64_t next = 0;
    for (int i = 0; i < 4; i++) {
        const int axis = axes[i];
        if (t->len[axis] > 1) {
            if (next != 0 && t->stride[axis] != next) {
                return 0;
            }
            *pitch = next == 0 ? t->stride[axis] : *pitch;
            next = ckci_saturating_mul(t->stride[axis], t->len[axis]);
        }
    }
    *pitch = next == 0 ? t->len[2] : *pitch;
    return 1;
}

/* A tensor of the caller's, [1][n][channels][z][y][x], as one of images' products: [n][1][positions][1][1]
   [channels]. Zero: positions do not lie `apart` each other. */
CKCI_FN int ckci_image_tensor(const ckci_tensor *t, const ckci_conv *p, int64_t apart, ckci_tensor *image)
{
    int64_t next = apart, positions = 1;
    int dense = 1;
    for (int i = 5; i >= 3; i--) {
        dense = dense && (p->input[i - 3] <= 1 || t->stride[i] == next);
        next *= p->input[i - 3];
        positions *= p->input[i - 3];
    }
    const int64_t len[6] = {p->n, 1, positions, 1, 1, t->len[2]};
    const int64_t stride[6] = {t->stride[1], 0, apart, 0, 0, t->stride[2]};
    *image = *t;
    memcpy(image->len, len, sizeof len);
    memcpy(image->stride, stride, sizeof stride);
    return dense;
}

/* Everything that does not depend on the kernel. The caller has checked ckci_gpu_takes. */
CKCI_FN void ckci_make_gpu_conv(const ckci_conv *p, ckci_gpu_conv *k)
{
    int weight = p->op == CKCONV_BWD_WEIGHT, back = p->op == CKCONV_BWD_DATA;
    int64_t rows = p->n;
    memset(k, 0, sizeof *k);
    k->a = p->t[p->op == CKCONV_FWD ? CKCI_IN : CKCI_OUT];
    k->b = p->t[weight ? CKCI_IN : CKCI_WEI];
    ckci_set_target(p, &k->o);
    k->phases = 1;
    k->columns = (int32_t)(back ? p->c : p->k);
    k->red = (int32_t)(back ? p->k : p->c);
    for (int i = 0; i < 3; i++) {
        k->dim[i] = ckci_make_gpu_dim(p, i);
        k->phases *= k->dim[i].phases;
        rows *= k->dim[i].count[0].d;
    }
    k->g = (int32_t)p->g;
    k->n = (int32_t)p->n;
    k->split = 1;
    if (weight) {
        k->columns = (int32_t)(p->c * p->filter[0] * p->filter[1] * p->filter[2]);
        k->rows = (int32_t)p->k;
        k->a_along = k->a.stride[5] < k->a.stride[2];
        k->b_along = k->b.stride[5] < k->b.stride[2];
        k->a_narrow = ckci_narrow_slice(&k->a, 1, 0);
        k->b_narrow = ckci_narrow_slice(&k->b, 1, 0);
    } else {
        int column = back ? 2 : 1, red = back ? 1 : 2;
        k->rows = (int32_t)rows;
        k->b_column = k->b.stride[column];
        k->b_red = k->b.stride[red];
        k->a_vec = ckci_vector_loads(&k->a, 2, k->red);
        k->b_vec = ckci_vector_loads(&k->b, red, k->red);
        k->a_along = k->a_vec || (k->red >= 4 && k->a.stride[2] < k->a.stride[5]);
        k->b_along = k->b_vec || k->b_red < k->b_column;
        k->a_narrow = ckci_narrow_slice(&k->a, k->red, k->a.stride[2]);
        k->b_narrow = ckci_narrow_slice(&k->b, k->red, k->b_red);
    }
    k->by_red = ckci_make_divisor(k->red);
    k->by_columns = ckci_make_divisor(k->columns);
    k->by_phases = ckci_make_divisor(k->phases);
}

/* What 32-bit indices hold; each return has one reason. */
CKCI_FN ckconv_status ckci_gpu_takes(const ckci_conv *p, ckconv_error *err)
{
    static const char *const dims[3] = {"z", "y", "x"};
    int64_t most = INT32_MAX / 2, positions = p->n, taps = 1, phases = 1;
    for (int i = 0; i < 3; i++) {
        int64_t largest = ckci_max(ckci_max(p->input[i], p->output[i]), ckci_max(p->filter[i], p->stride[i]));
        largest = ckci_max(largest, ckci_max(p->dilation[i], p->pad[i]));
        largest = ckci_max(largest, ckci_saturating_mul(p->output[i], p->stride[i]));
        largest = ckci_max(largest, ckci_saturating_mul(p->filter[i] - 1, p->dilation[i]));
        largest = ckci_saturating_add(largest, p->pad[i]);
        if (largest > most) {
            return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                             "GPU kernels take up to 2^30 - 1 for sizes, output * stride and (filter-1) * "
                             "dilation, each with pad_lo added; %s has %lld",
                             dims[i], CKCI_LL(largest));
        }
        phases = ckci_saturating_mul(phases, ckci_min(p->stride[i], p->input[i]));
        positions = ckci_saturating_mul(
            positions, p->op == CKCONV_BWD_DATA ? ckci_ceil_div(p->input[i], p->stride[i]) : p->output[i]);
        taps = ckci_saturating_mul(taps, p->filter[i]);
    }
    int64_t red = ckci_saturating_mul(taps, ckci_max(p->c, p->k));
    int64_t channels = ckci_saturating_mul(p->g, ckci_saturating_mul(p->k, p->c));
    if (positions > most || red > most || channels > most) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "GPU kernels take 2^30 - 1 positions (N x space, of one stride phase), taps x "
                         "channels and G*K*C; here they are %lld, %lld and %lld",
                         CKCI_LL(positions), CKCI_LL(red), CKCI_LL(channels));
    }
    if (p->op == CKCONV_BWD_DATA && phases > most) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "GPU kernels take 2^30 - 1 stride phases (the product of the strides); here they are "
            "%lld",
            CKCI_LL(phases));
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_too_many_blocks(int64_t blocks, ckconv_error *err)
{
    return blocks <= INT32_MAX
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "GPU kernels take 2^31 - 1 blocks; this problem has %lld", CKCI_LL(blocks));
}

/* NVIDIA limits the blocks of a launch; AMD its threads, to 2^32 - 1. */
CKCI_FN ckconv_status ckci_check_launch(const ckconv_device *device, const ckci_launch *l, ckconv_error *err)
{
    if (!ckci_kernel_kept(l->kernel)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "%s was left out of this build by the switches CKCONV_NO_... and CKCONV_ONLY_...",
                         ckci_kernel_name(l->kernel));
    }
    int64_t most = device->kind == CKCONV_DEVICE_AMD ? (int64_t)UINT32_MAX / l->threads : INT32_MAX;
    return l->grid >= 1 && l->grid <= most
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "%s needs %lld blocks of %d threads; %s launches 1 to %lld of them",
                           ckci_kernel_name(l->kernel), CKCI_LL(l->grid), (int)l->threads, device->arch,
                           CKCI_LL(most));
}

/* Does it put tensors in another order? */
CKCI_FN int ckci_packs(const ckci_launch *l)
{
    return l->takes == CKCI_ARGS_ckci_gpu_pack || l->takes == CKCI_ARGS_ckci_gpu_pack_data ||
           l->takes == CKCI_ARGS_ckci_gpu_move || l->takes == CKCI_ARGS_ckci_gpu_moves;
}

/* Does it write o of an argument struct ckci_gpu_conv or ckci_gpu_depth? Then the epilogue of mid may be put
   there. (The TMA's boxes are made before.) */
CKCI_FN int ckci_writes_target(const ckci_launch *l)
{
    return l->takes == CKCI_ARGS_ckci_gpu_conv || l->takes == CKCI_ARGS_ckci_gpu_depth;
}

/* An emitter that checks the launches of a plan and counts them. mid: they are to write mid. */
typedef struct ckci_launch_count {
    const ckconv_device *device;
    int32_t count, mid;
} ckci_launch_count;

CKCI_FN ckconv_status ckci_count_launch(void *context, const ckci_launch *launch, ckconv_error *err)
{
    ckci_launch_count *c = (ckci_launch_count *)context;
    c->count++;
    if (c->mid && !ckci_packs(launch) && !ckci_writes_target(launch)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "%s does not take the epilogue of mid",
                         ckci_kernel_name(launch->kernel));
    }
    return ckci_check_launch(c->device, launch, err);
}

/* What costs count beside those of tiles, vector and matrix units' alike, of which 370 to 690 ns are a
   microsecond on an H100 (216 problems there: 1 to 8 channels per group on each side, f16, f32, both
   layouts). Direct kernels load two numbers for each product. */
#define CKCI_DIRECT_BESIDE 11
#define CKCI_DIRECT_WEIGHT_BESIDE 20

/* A kernel's cost is that of multiply-adds on one compute unit. Smaller tiles read LDS more often, direct
   kernels read memory for each product. */
CKCI_FN double ckci_gpu_cost(const ckconv_device *device, int64_t blocks, double per_block, int32_t tile)
{
    double rate = tile == 128 ? 1 : 1.6, share = (double)blocks / ckci_units(device);
    return ckci_cost_fma(device, per_block * rate * (share < 1.5 ? 1.5 : share));
}

/* What portable multiply-adds cost beside others in types that a matrix unit multiplies. More than four
   channels on both sides: beyond all others, for devices without one, and for plans that may not have the
   workspace of a packed tensor; their rate is an eighth of it or less, and falls further the fewer the
   blocks; a space of one pixel, too (pixel, H100: 6 us beside 17). Else, where the other side fills the
   narrowest matrix tile, of 32 columns, each output of fwd and bwd_data once more as long as 300 products,
   since numbers are written one by one (H100: 8 to 400 us above what products take, of 5 to 40 million
   outputs). */
CKCI_FN double ckci_gpu_last(const ckci_conv *p, const ckconv_device *device)
{
    ckconv_dtype compute = p->t[ckci_base(p->op)].compute;
    int matrix = compute != CKCONV_F32 && compute != CKCONV_F64 && ckci_matrix_family(device) != 0;
    const int64_t few = ckci_min(p->k, p->c), many = ckci_max(p->k, p->c);
    const int pixel = p->g == 1 && p->output[0] * p->output[1] * p->output[2] == 1 && ckci_pointwise(p);
    if (!matrix || few > 4 || pixel) {
        return matrix ? CKCI_LAST : 0;
    }
    const double count = (double)ckci_count(&p->t[ckci_written(p->op)]);
    return p->op == CKCONV_BWD_WEIGHT || many < 32 ? 0
                                                   : ckci_cost_fma(device, 300. * count / ckci_units(device));
}

/* Which of the table's kernels: base is the f32 one; f64 and i32 follow it in each family. */
CKCI_FN int32_t ckci_kernel_for(ckconv_dtype kind, int32_t f32, int32_t f64, int32_t i32)
{
    return kind == CKCONV_F64 ? f64 : kind == CKCONV_I32 ? i32 : f32;
}

CKCI_FN ckconv_dtype ckci_conv_kind(const ckci_conv *p)
{
    return ckci_find_kind(p->t[ckci_base(p->op)].compute)->dtype;
}

/* Blocks of 256 outputs: lanes channels, and positions. Channels go first where they lie closer together in
   the tensor that is written. */
CKCI_FN void ckci_direct_blocks(ckci_gpu_conv *k, int64_t channels)
{
    const ckci_tensor *t = &k->o.t;
    int channels_first = t->stride[5] >= ckci_min(t->stride[0], t->stride[2]);
    k->lanes = 1;
    while (k->lanes < 64 && k->lanes < channels && channels_first) {
        k->lanes *= 2;
    }
    k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, 256 / k->lanes), 1);
    k->tiles_n = (int32_t)ckci_ceil_div(channels, k->lanes);
}

/* Places of the reduction of one phase, on average, of `channels` each. */
CKCI_FN double ckci_reduction(const ckci_gpu_conv *k, double channels)
{
    for (int i = 0; i < 3; i++) {
        channels *= (double)k->dim[i].filter / (double)k->dim[i].period;
    }
    return channels;
}

/* Positions along an axis that read something at tap t: *begin to the result, less 1. */
CKCI_FN int64_t ckci_tap_meets(const ckci_gpu_dim *d, int64_t t, int64_t *begin)
{
    const int64_t first = (d->gather_back ? d->pad : -d->pad) + t * d->read_tap, past = d->read_len - first;
    *begin = ckci_ceil_div(ckci_max(-first, 0), d->read_step);
    return past > 0 ? ckci_min(ckci_ceil_div(past, d->read_step), d->length) : 0;
}

/* Dilated filters reach past what there is. The share of their time that tiles of `rows` positions take, of
   which `rounds` follow each other: they leave out taps at which they read padding alone, along the outermost
   axis that has several, if that is a thirtieth in the mean: to find them takes a wave some 150 clocks, and a
   short tile 5,000 (counted). A single round is as long as its longest tile: one that lies in two images
   leaves out nothing. */
CKCI_FN double ckci_trim(ckci_gpu_conv *k, int64_t rows, double rounds)
{
    const int axis = k->dim[0].filter > 1 ? 0 : k->dim[1].filter > 1 ? 1 : 2;
    const ckci_gpu_dim *d = &k->dim[axis];
    double inner = 1, met = 0, most = 0;
    int strides = 0;
    for (int i = 0; i < 3; i++) {
        inner *= i > axis ? k->dim[i].length : 1;
        strides |= d->gather_back && k->dim[i].stride > 1;
    }
    if (strides || k->ranges || k->rows == 0) {
        return 1;
    }
    const double high = (double)(rows - 1) / inner, two = high / d->length; /* two: tiles in two images */
    for (int64_t t = 0; t < d->filter; t++) {
        int64_t begin, other;
        const int64_t end = ckci_tap_meets(d, t, &begin);
        const double some = begin < end ? ((double)(end - begin) + high) / d->length : 0;
        double taps = 0; /* of a tile that ends where this one's positions begin */
        met += (some < 1 ? some : 1) / d->filter;
        for (int64_t u = 0; u < d->filter && begin < end; u++) {
            const int64_t past = ckci_tap_meets(d, u, &other);
            taps += other < past && other <= begin && (double)past > (double)begin - high;
        }
        most = taps > most ? taps : most;
    }
    met = met < 1. / d->filter ? 1. / d->filter : met; /* a tile multiplies one at least */
    met = two < 1 ? met + two * (1 - met) : 1;
    k->trim = met < 29. / 30 ? axis + 1 : 0;
    most = k->rows > inner * d->length ? 1 : most / d->filter;
    return k->trim ? met + (most > met ? most - met : 0) / (rounds > 1 ? ceil(rounds) : 1) : 1;
}

/* Positions of an image (of one phase), and how far the filter reaches beyond the tensor that is read, on
   both sides of each axis together. */
CKCI_FN void ckci_image(const ckci_conv *p, int64_t *positions, int64_t beyond[3])
{
    int back = p->op == CKCONV_BWD_DATA;
    *positions = 1;
    for (int i = 0; i < 3; i++) {
        int64_t span = ckci_saturating_mul(p->filter[i] - 1, p->dilation[i]), low, high;
        *positions *= ckci_max(back ? p->input[i] / p->stride[i] : p->output[i], 1);
        if (back) {
            low = ckci_max(ckci_ceil_div(span - p->pad[i], p->stride[i]), 0);
            high = (p->input[i] - 1 + p->pad[i]) / p->stride[i] - (p->output[i] - 1);
        } else {
            low = p->pad[i];
            high = ckci_saturating_add(ckci_saturating_mul(p->output[i] - 1, p->stride[i]), span) -
                   p->pad[i] - (p->input[i] - 1);
        }
        beyond[i] = ckci_saturating_add(low, ckci_max(high, 0));
    }
}

/* Elements from the first to the last one that a block may address: of some images and channels, and so far
   beyond each axis. beyond NULL: not at all. */
CKCI_FN int64_t ckci_reach(const ckci_tensor *t, int64_t images, int64_t channels, const int64_t *beyond)
{
    int64_t reach = ckci_saturating_mul(t->stride[1], ckci_min(images, t->len[1]));
    reach = ckci_saturating_add(reach, ckci_saturating_mul(channels, t->stride[2]));
    for (int i = 3; i < 6; i++) {
        int64_t len = ckci_saturating_add(t->len[i], beyond ? beyond[i - 3] : 0);
        reach = ckci_saturating_add(reach, ckci_saturating_mul(len, t->stride[i]));
    }
    return reach;
}

/* The grid, once tiles_m and tiles_n are known: those of `slices` phases and groups; nothing for an empty
   batch. */
CKCI_FN ckconv_status ckci_make_grid(ckci_gpu_conv *k, int64_t slices, ckci_launch *l, ckconv_error *err)
{
    l->grid = ckci_saturating_mul(ckci_saturating_mul(k->tiles_m, k->tiles_n), slices);
    CKCI_TRY(ckci_too_many_blocks(l->grid, err));
    l->grid = k->rows == 0 ? 0 : l->grid;
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    k->by_tiles_m = ckci_make_divisor(k->tiles_m);
    return CKCONV_OK;
}

/* fwd and bwd_data with one kernel. tile 0: direct. */
CKCI_FN ckconv_status ckci_gpu_gather(const ckci_conv *p, const ckconv_device *device, int32_t tile,
                                      ckci_launch *l, double *cost, ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    ckconv_dtype kind = ckci_conv_kind(p);
    CKCI_TRY(ckci_gpu_takes(p, err));
    ckci_make_gpu_conv(p, k);
    double red = ckci_reduction(k, (double)k->red);
    if (tile) {
        ckci_set_kernel(l, tile == 128
                               ? CKCI_KERNEL_gather_f32_128
                               : ckci_kernel_for(kind, CKCI_KERNEL_gather_f32_64, CKCI_KERNEL_gather_f64_64,
                                                 CKCI_KERNEL_gather_i32_64));
        k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, tile), 1);
        k->tiles_n = (int32_t)ckci_ceil_div(k->columns, tile);
        CKCI_TRY(ckci_make_grid(k, ckci_saturating_mul(k->phases, k->g), l, err));
        *cost = ckci_gpu_cost(device, l->grid, (double)tile * tile * (red + 32), tile);
    } else {
        int64_t channels = p->g * k->columns;
        ckci_set_kernel(
            l, ckci_kernel_for(kind, CKCI_KERNEL_direct_f32, CKCI_KERNEL_direct_f64, CKCI_KERNEL_direct_i32));
        ckci_direct_blocks(k, channels);
        CKCI_TRY(ckci_make_grid(k, k->phases, l, err));
        *cost = CKCI_DIRECT_BESIDE * ckci_gpu_cost(device, l->grid, 256 * 4 * (red + 16), 128);
    }
    *cost += ckci_gpu_last(p, device);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_gpu_no_split(const ckci_fit *f, ckconv_error *err)
{
    return f->split_k <= 1 ? CKCONV_OK
                           : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                                       "split_k is %d: this one has one part, or chooses", (int)f->split_k);
}

/* A layer that is a launch and another layer, `conv`, beside `bytes` of its workspace: what is sampled, rows
   of patches, rows of im2col. ns: what the launch takes. */
typedef struct ckci_rest {
    ckci_conv conv;
    int64_t bytes;
    double ns;
    ckci_launch l;
} ckci_rest;

/* Makes one of p, with `limit` bytes of workspace at ws (NULL in plans), or says why there is none. */
typedef ckconv_status ckci_find_rest(const ckci_conv *p, const ckconv_device *device, int64_t limit,
                                     unsigned char *ws, ckci_rest *r, ckconv_error *err);

/* The plan keeps what the other layer's chose. */
CKCI_FN ckconv_status ckci_fit_rest(ckci_fit *f, ckci_find_rest *find, ckconv_error *err)
{
    ckconv_plan *plan = f->plan, one;
    ckci_rest r;
    memset(&r, 0, sizeof r); /* gcc warns where a build keeps none */
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_takes(&f->p->conv, err));
    CKCI_TRY(find(&f->p->conv, &plan->device, f->limit, NULL, &r, err));
    CKCI_TRY(ckci_plan_part(&r.conv, &plan->device, f->limit - r.bytes, 0, &one, &f->cost, err));
    f->cost += r.ns;
    f->ns = ckci_part_ns(&one) + r.ns;
    plan->grid[0] = one.grid[0];
    plan->block[0] = one.block[0];
    plan->tune[CKCI_TUNE_PART] = one.instance;
    plan->tune[CKCI_TUNE_APART] = one.tune[CKCI_TUNE_APART];
    plan->tune[CKCI_TUNE_PARTS] = one.split_k;
    plan->workspace_bytes = r.bytes + one.workspace_bytes;
    return CKCONV_OK;
}

/* The launches: its own after the others in bwd_data, else before. A plan that is itself one of several parts
   keeps nothing (ref's number): the other layer is planned again. */
CKCI_FN ckconv_status ckci_list_rest(const ckconv_plan *plan, const ckci_conv *p, ckci_find_rest *find,
                                     unsigned char *ws, const ckci_emitter *e, ckconv_error *err)
{
    const int back = plan->op == CKCONV_BWD_DATA;
    ckconv_plan part = *plan;
    ckci_rest r;
    memset(&r, 0, sizeof r);
    CKCI_TRY(find(p, &plan->device, ckci_run_limit(plan), ws, &r, err));
    ws = ws ? ws + r.bytes : NULL;
    if (!back) {
        CKCI_TRY(e->emit(e->context, &r.l, err));
    }
    part.instance = (int32_t)plan->tune[CKCI_TUNE_PART];
    part.split_k = (int32_t)plan->tune[CKCI_TUNE_PARTS];
    part.workspace_bytes -= r.bytes;
    CKCI_TRY(part.instance ? ckci_list_part(&part, &r.conv, ws, e, err)
                           : ckci_emit_part(&plan->device, &r.conv, ckci_run_limit(&part), ws, e, err));
    return back ? e->emit(e->context, &r.l, err) : CKCONV_OK;
}

CKCI_FN ckconv_status ckci_gpu_wrong_kind(const ckci_fit *f, ckconv_dtype kind, ckconv_error *err)
{
    return f->kind == 0 || f->kind == kind
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "the sums are %s, the instance's are %s",
                           ckconv_dtype_name(kind), ckconv_dtype_name(f->kind));
}

/* Direct kernels read memory for each product: with many channels per group they would be slower by tens. */
CKCI_FN ckconv_status ckci_gpu_direct_takes(const ckci_fit *f, ckconv_error *err)
{
    const ckci_conv *p = &f->p->conv;
    return f->tile->form != CKCI_TILE_DIRECT || ckci_min(p->k, p->c) <= 16
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "direct takes up to 16 channels per group on one side; here K is %lld and C %lld",
                           CKCI_LL(p->k), CKCI_LL(p->c));
}

CKCI_FN void ckci_plan_launch(ckconv_plan *plan, const ckci_launch *l, int32_t launches)
{
    plan->grid[0] = l->grid;
    plan->block[0] = l->threads;
    plan->launches = launches;
}

/* Tiles whose registers have no room for long sums keep them in the parts' workspace: of one part, with no
   `place` in dw, none may be long. *split becomes two parts if it is free. */
CKCI_FN ckconv_status ckci_place_long_sums(int64_t positions, int place, int32_t split_k, int64_t sum_bytes,
                                           int64_t limit, int64_t *split, ckconv_error *err)
{
    if (place || *split > 1 || positions <= CKCI_GPU_CHAIN) {
        return CKCONV_OK;
    }
    int64_t bytes = ckci_saturating_mul(2, sum_bytes);
    if (split_k == 0 && bytes <= limit && sum_bytes / 4 <= INT32_MAX) {
        *split = 2;
        return CKCONV_OK;
    }
    return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                     "this tile adds up %lld positions (more than %d) only in parts: split_k is %d, the sums "
                     "of two parts need %lld bytes of workspace, options.max_workspace allows %lld",
                     CKCI_LL(positions), (int)CKCI_GPU_CHAIN, (int)split_k, CKCI_LL(bytes), CKCI_LL(limit));
}

/* bwd_weight. split_k 0: as many parts as fill the GPU, within `limit` bytes. tile 0: direct. Sums of parts
   lie in workspace at *bytes = parts * G * K * taps * C sums. */
CKCI_FN ckconv_status ckci_gpu_weight(const ckci_conv *p, const ckconv_device *device, int32_t tile,
                                      int32_t split_k, int64_t limit, ckci_launch *l, int64_t *bytes,
                                      double *cost, ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    ckconv_dtype kind = ckci_conv_kind(p);
    CKCI_TRY(ckci_gpu_takes(p, err));
    ckci_make_gpu_conv(p, k);
    int64_t positions = p->n * p->output[0] * p->output[1] * p->output[2], tiles;
    int64_t sums = ckci_saturating_mul(ckci_saturating_mul(p->g, k->rows), k->columns);
    if (tile) {
        ckci_set_kernel(l, tile == 128
                               ? CKCI_KERNEL_weight_f32_128
                               : ckci_kernel_for(kind, CKCI_KERNEL_weight_f32_64, CKCI_KERNEL_weight_f64_64,
                                                 CKCI_KERNEL_weight_i32_64));
        k->tiles_m = (int32_t)ckci_ceil_div(k->rows, tile);
        k->tiles_n = (int32_t)ckci_ceil_div(k->columns, tile);
        tiles = ckci_saturating_mul(ckci_saturating_mul(k->tiles_m, k->tiles_n), p->g);
        k->by_phases = ckci_make_divisor(p->g);
    } else {
        int64_t filters = p->g * p->k * p->c;
        ckci_set_kernel(l, ckci_kernel_for(kind, CKCI_KERNEL_direct_weight_f32, CKCI_KERNEL_direct_weight_f64,
                                           CKCI_KERNEL_direct_weight_i32));
        k->lanes = 1;
        while (k->lanes < 32 && k->lanes < filters &&
               k->a.stride[5] >= ckci_min(k->a.stride[0], k->a.stride[2])) {
            k->lanes *= 2;
        }
        k->tiles_m = (int32_t)(p->filter[0] * p->filter[1] * p->filter[2]);
        k->tiles_n = (int32_t)ckci_ceil_div(filters, k->lanes);
        tiles = ckci_saturating_mul(k->tiles_m, k->tiles_n);
        k->by_channels = ckci_make_divisor(p->k);
    }
    /* parts: four blocks for each compute unit, none with fewer than 512 positions */
    int64_t split = split_k, sum_bytes = ckci_saturating_mul(sums, kind == CKCONV_F64 ? 8 : 4);
    if (split == 0) {
        int64_t want = ckci_ceil_div(4 * (int64_t)ckci_max(device->compute_units, 1), ckci_max(tiles, 1));
        split = ckci_min(ckci_min(want, positions / 512), 1024);
        split = ckci_min(split, limit / ckci_max(sum_bytes, 1));
        split = sums > INT32_MAX ? 1 : split;
    }
    split = ckci_max(ckci_min(split, positions), 1);
    CKCI_TRY(ckci_place_long_sums(positions, tile != 128, split_k, sum_bytes, limit, &split, err));
    *bytes = split > 1 ? ckci_saturating_mul(split, sum_bytes) : 0;
    CKCI_TRY(ckci_sums_fit(split_k, *bytes, limit, err));
    if (split > 1 && sums > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: 2^31 - 1 weights can be split",
                         (int)split_k);
    }
    k->split = (int32_t)split;
    k->part = (int32_t)(positions / split);
    k->part_rest = (int32_t)(positions % split);
    l->grid = ckci_saturating_mul(tiles, split);
    CKCI_TRY(ckci_too_many_blocks(l->grid, err));
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    k->by_tiles_m = ckci_make_divisor(k->tiles_m);
    *cost = tile ? ckci_gpu_cost(device, l->grid, (double)tile * tile * ((double)k->part + 32), tile)
                 : CKCI_DIRECT_WEIGHT_BESIDE *
                       ckci_gpu_cost(device, l->grid, 4.0 * k->lanes * ((double)k->part + 256), 128);
    *cost += ckci_gpu_last(p, device);
    *cost += split > 1 ? ckci_cost_launch(device, 91.7) + ckci_cost_bytes(device, (double)*bytes, 13952) : 0;
    return CKCONV_OK;
}

/* Are weights stored in the order of their sums, [g][k][tap][c], without an epilogue, four at a time? */
CKCI_FN int32_t ckci_weights_as_sums(const ckci_tensor *t)
{
    static const int order[6] = {2, 5, 4, 3, 1, 0};
    int64_t next = 1;
    int fits = t->op.kind == CKCONV_PASS && (uintptr_t)t->p % 16 == 0 &&
               (t->dtype == CKCONV_F32 || t->dtype == CKCONV_F16 || t->dtype == CKCONV_BF16);
    for (int i = 0; i < 6; i++) {
        int axis = order[i];
        fits = fits && (t->len[axis] <= 1 || t->stride[axis] == next);
        next = ckci_saturating_mul(next, ckci_max(t->len[axis], 1));
    }
    return fits && next % 4 == 0;
}

/* Where sums of dbias go, once they lie somewhere. */
CKCI_FN ckci_gpu_vector ckci_bias_vector(const ckci_conv *p, int64_t parts)
{
    ckci_gpu_vector o;
    o.sums = NULL;
    o.out = p->dbias.p;
    o.dtype = p->dbias.dtype;
    o.adds = p->accumulate;
    o.channels = (int32_t)(p->g * p->k);
    o.parts = (int32_t)parts;
    return o;
}

/* The launch that adds the sums of bwd_weight's parts, [part][g][k][taps][c], in a fixed order. matrix: what
   wrote them, if a matrix kernel did; else NULL. */
CKCI_FN ckconv_status ckci_emit_reduce(const ckci_conv *p, int32_t split, const ckci_gpu_conv *matrix,
                                       unsigned char *ws, const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    ckci_gpu_conv *k = &l.a.conv;
    ckci_make_gpu_conv(p, k);
    ckci_set_kernel(&l, ckci_kernel_for(ckci_conv_kind(p), CKCI_KERNEL_reduce_f32, CKCI_KERNEL_reduce_f64,
                                        CKCI_KERNEL_reduce_i32));
    k->split = split;
    k->o.partial = ws;
    k->by_tiles_m = ckci_make_divisor(k->rows);
    if (matrix) {
        k->share = matrix->share;
        k->tiles_m = matrix->tiles_m;
        k->tiles_n = matrix->tiles_n;
        k->float_parts = matrix->float_parts;
    }
    k->o_vec = ckci_conv_kind(p) == CKCONV_F32 && ckci_weights_as_sums(&k->o.t) && !k->o.scale &&
               !k->o.shift && !k->o.compute && (uintptr_t)ws % 16 == 0;
    /* several threads for the same weights, lest they be few; each with four parts at least */
    int64_t weights = (int64_t)k->g * k->rows * k->columns;
    while (k->o_vec && k->lanes < 5 && 8 << k->lanes <= split && weights << k->lanes < 524288) {
        k->lanes++;
    }
    l.grid = ckci_ceil_div(weights, k->o_vec ? 1024 >> k->lanes : 256);
    if (matrix && matrix->bias.sums) {
        k->bias = ckci_bias_vector(p, (int64_t)split * matrix->bias_turns);
        k->bias.sums = matrix->bias.sums;
        k->bias_turns = matrix->bias_turns;
        k->bias_at = l.grid;
        l.grid += ckci_ceil_div(k->bias.channels, 16);
    }
    return e->emit(e->context, &l, err);
}
