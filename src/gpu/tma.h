/*------------------------------------------------------------------------------------------------------------
  >>gpu-tma
  Matrix tiles whose operands the tensor memory accelerator brings (sm_90, kernels/matrix/tma.h): whether it
  takes a convolution's tensors, and the boxes that it moves. One group, channels last, or products for each
  image.
*/
#pragma once
#include "gpu/matrix.h"

CKCI_FN int ckci_tma_base(const unsigned char *p, int64_t len, ckci_gpu_box *b)
{
    memset(b, 0, sizeof *b);
    b->p = p;
    b->len[0] = len;
    b->stride[0] = 1;
    return (uintptr_t)p % 16 == 0 && len > 0;
}

/* One more dimension. Strides are multiples of 16 bytes, less than 2^40; of a single place any. */
CKCI_FN int ckci_tma_dimension(int64_t len, int64_t stride, ckci_gpu_box *b)
{
    const int32_t i = b->rank == 0 ? 1 : b->rank;
    stride = len == 1 ? ckci_ceil_div(b->len[0], 8) * 8 : stride;
    b->len[i] = len;
    b->stride[i] = stride;
    b->rank = i + 1;
    return len > 0 && len <= INT32_MAX && stride > 0 && stride % 8 == 0 && stride < (int64_t)1 << 38;
}

/* Rows of `len` numbers, `pitch` apart. */
CKCI_FN int ckci_tma_rows(const unsigned char *p, int64_t len, int64_t rows, int64_t pitch, ckci_gpu_box *b)
{
    return ckci_tma_base(p, len, b) && ckci_tma_dimension(rows, pitch, b);
}

/* Weights: channels along dimension `inner` (2: input, 1: output channels), taps or images if there are
   several, the other channels. */
CKCI_FN int ckci_tma_weights(const ckci_tensor *w, int inner, ckci_gpu_box *b)
{
    int64_t taps = 1, step = 0;
    for (int i = 5; i >= 3; i--) {
        if (w->len[i] > 1 && step != 0 && w->stride[i] != step * taps) {
            return 0;
        }
        step = w->len[i] > 1 && step == 0 ? w->stride[i] : step;
        taps *= w->len[i];
    }
    return (w->stride[inner] == 1 || w->len[inner] == 1) && ckci_tma_base(w->p, w->len[inner], b) &&
           (taps == 1 || ckci_tma_dimension(taps, step, b)) &&
           (w->len[0] == 1 || ckci_tma_dimension(w->len[0], w->stride[0], b)) &&
           ckci_tma_dimension(w->len[3 - inner], w->stride[3 - inner], b);
}

/* Pixels that positions of c read; each axis that takes part shortens how far taps and padding may reach. */
CKCI_FN int ckci_tma_pixels(const ckci_conv *c, ckci_gpu_box *b)
{
    static const int32_t corners[3] = {32767, 127, 15}, taps[3] = {65535, 255, 31};
    const int back = c->op == CKCONV_BWD_DATA;
    const ckci_tensor *t = &c->t[back ? CKCI_OUT : CKCI_IN];
    int axes = 3;
    while (axes > 1 && t->len[6 - axes] == 1 && c->filter[3 - axes] == 1 && c->input[3 - axes] == 1 &&
           c->output[3 - axes] == 1 && c->pad[3 - axes] == 0) {
        axes--;
    }
    int good = ckci_tma_base(t->p, t->len[2], b);
    for (int i = 0; i < axes; i++) {
        const int axis = 2 - i;
        const int64_t count = back ? ckci_ceil_div(c->input[axis], c->stride[axis]) : c->output[axis];
        const int64_t step = back ? 1 : c->stride[axis];
        int64_t span = (c->filter[axis] - 1) * c->dilation[axis], low = -c->pad[axis];
        good = good && (!back || ckci_phase_reach(c, axis, &low, &span));
        const int64_t high = low + (count - 1) * step - (t->len[3 + axis] - 1);
        good = good && ckci_tma_dimension(t->len[3 + axis], t->stride[3 + axis], b) && step <= 8 &&
               span <= taps[axes - 1] && low >= -corners[axes - 1] && low <= corners[axes - 1] &&
               high >= -corners[axes - 1] && high <= corners[axes - 1];
        b->low[i] = (int32_t)low;
        b->high[i] = (int32_t)high;
        b->step[i] = (int32_t)step;
    }
    b->pixels = 1;
    return good && ckci_tma_dimension(t->len[1], t->stride[1], b);
}

/* bwd_weight as a product summed over images: [channel][image][position]. */
CKCI_FN int ckci_tma_layers(const ckci_tensor *t, ckci_gpu_box *b)
{
    return ckci_tma_base(t->p, t->len[2], b) &&
           (t->len[3] == 1 || ckci_tma_dimension(t->len[3], t->stride[3], b)) &&
           ckci_tma_dimension(t->len[5], t->stride[5], b);
}

/* bwd_weight's dout as it lies, channels first, [channel][image][position]: so many positions of a plane are
   a box, 64 or 32, of which planes have a multiple; 0: it does not lie so. (Boxes of 16 take longer than to
   turn dout: H200, planes of 400 and 784.) */
CKCI_FN int32_t ckci_tma_dout(const ckci_conv *c, ckconv_dtype type, ckci_gpu_box *b)
{
    const ckci_tensor *t = &c->t[CKCI_OUT];
    const int64_t plane = ckci_dense_plane(t);
    const int good = plane > 0 && plane % 32 == 0 && t->stride[2] != 1 && t->plain && t->dtype == type &&
                     t->compute == type && ckci_tma_base(t->p, plane, b) &&
                     ckci_tma_dimension(t->len[1], t->stride[1], b) &&
                     ckci_tma_dimension(t->len[2], t->stride[2], b);
    return !good ? 0 : plane % 64 == 0 ? 64 : 32;
}

/* What positions of c read: rows, where that is a matrix. */
CKCI_FN int ckci_tma_read(const ckci_conv *c, int64_t positions, ckci_gpu_box *b)
{
    const ckci_tensor *t = &c->t[c->op == CKCONV_BWD_DATA ? CKCI_OUT : CKCI_IN];
    int64_t pitch;
    return ckci_pointwise(c) && ckci_even_positions(t, &pitch)
               ? ckci_tma_rows(t->p, t->len[2], positions, pitch, b)
               : ckci_tma_pixels(c, b);
}

/* Steps of 64 places of the reduction, of all parts of a tile. */
CKCI_FN int64_t ckci_tma_steps(const ckci_conv *c, const ckci_gpu_conv *k)
{
    if (c->op != CKCONV_BWD_WEIGHT) {
        return ckci_ceil_div(ckci_tma_places(c, k), CKCI_TMA_BOX);
    }
    return ckci_ceil_div(c->n * c->output[0] * c->output[1] * c->output[2], CKCI_TMA_BOX);
}

/* Columns of tiles of bwd_weight: each 64 are channels of one tap. */
CKCI_FN int64_t ckci_tma_columns(const ckci_conv *c)
{
    return c->filter[0] * c->filter[1] * c->filter[2] * ckci_ceil_div(c->c, CKCI_TMA_BOX) * CKCI_TMA_BOX;
}

/* Positions that a store of a thread may have: planes, channels and images begin at multiples of as many. */
CKCI_FN int32_t ckci_tma_by(const ckci_gpu_box *b, int64_t plane)
{
    int32_t by = 4;
    while (by > 1 && (plane % by != 0 || b->stride[1] % by != 0 || b->stride[2] % by != 0 ||
                      (uintptr_t)b->p % (2 * (size_t)by) != 0)) {
        by /= 2;
    }
    return by;
}

/* What fwd and bwd_data write: by the TMA, or by threads in words; of products for each image, as planes. */
CKCI_FN int ckci_tma_written(const ckci_gpu_conv *k, int64_t positions, ckci_gpu_box *b)
{
    const ckci_tensor *t = &k->o.t;
    int64_t pitch;
    int good = t->stride[2] == 1 && ckci_even_positions(t, &pitch);
    const int images = t->len[0] > 1;
    if (good &&
        !(ckci_tma_base(t->p, k->columns, b) && (!images || ckci_tma_dimension(t->len[0], t->stride[0], b)) &&
          ckci_tma_dimension(positions, pitch, b))) {
        memset(b, 0, sizeof *b);
        b->p = t->p;
        b->stride[1] = pitch;
        good = !images && (uintptr_t)t->p % 4 == 0 && pitch % 2 == 0 && k->columns % 2 == 0;
        if (k->o.across) { /* planes, of each image */
            b->stride[1] = t->stride[0];
            b->stride[2] = pitch;
            b->rows = ckci_tma_by(b, k->columns);
            good = 1;
        }
    }
    return good;
}

/* The same where positions lie side by side, in planes of channels: by the TMA, or as many of them at a time
   as planes have a multiple of. */
CKCI_FN void ckci_tma_planes(const ckci_gpu_conv *k, int64_t plane, ckci_gpu_box *b)
{
    const ckci_tensor *t = &k->o.t;
    const int eights = plane % 8 == 0 || t->len[1] == 1; /* where boxes leave an image */
    if (!(eights && ckci_tma_base(t->p, plane, b) && ckci_tma_dimension(t->len[1], t->stride[1], b) &&
          ckci_tma_dimension(k->columns, t->stride[2], b))) {
        memset(b, 0, sizeof *b);
        b->p = t->p;
        b->stride[1] = t->stride[1];
        b->stride[2] = t->stride[2];
        b->rows = ckci_tma_by(b, plane);
    }
}

/* Does k write dense rows of f32 without an epilogue, channels last, which are stored as sums of one part
   are? */
CKCI_FN int ckci_tma_sums(const ckci_matrix *m)
{
    const ckci_gpu_conv *k = &m->l.a.conv;
    const ckci_tensor *t = &k->o.t;
    int64_t pitch;
    return t->dtype == CKCONV_F32 && k->o.form == CKCI_FORM_STORE && !k->o.across && t->stride[2] == 1 &&
           k->columns % 2 == 0 && m->tile->columns != CKCI_TMA_BOX && ckci_even_positions(t, &pitch) &&
           pitch == k->columns && (uintptr_t)t->p % 8 == 0;
}

/* m's launch, planned as one of fragments, becomes one of the TMA. across: weights lie across the
   reduction. */
CKCI_FN ckconv_status ckci_matrix_tma(const ckconv_device *device, ckci_matrix *m, int across,
                                      ckconv_error *err)
{
    const ckci_conv *c = &m->conv;
    ckci_gpu_tma *t = &m->l.a.tma;
    ckci_gpu_conv *k = &t->conv;
    const int weight = c->op == CKCONV_BWD_WEIGHT;
    const int64_t taps = c->filter[0] * c->filter[1] * c->filter[2], steps = ckci_tma_steps(c, k);
    const int64_t parts = ckci_max(m->cluster > 1 ? m->cluster : m->split, 1);
    const int64_t positions = weight ? c->n * c->output[0] * c->output[1] * c->output[2] : k->rows;
    int32_t wide = CKCI_TMA_BOX;
    int residual = 0;
    int64_t pitch;
    if (m->l.grid == 0) {
        return CKCONV_OK;
    }
    memset((unsigned char *)t + sizeof *k, 0, sizeof *t - sizeof *k);
    int good = (c->g == 1 || (m->images && across)) && (k->phases == 1 || m->phased) && k->merge == 0 &&
               positions <= INT32_MAX / 2 && steps > 0 &&
               ckci_saturating_mul(steps, parts + 1) <= INT32_MAX && k->chain % CKCI_TMA_BOX == 0;
    if (weight) {
        wide = m->plane ? ckci_tma_dout(c, m->type, &t->box[0]) : +CKCI_TMA_BOX;
        good = good && wide > 0 &&
               (m->plane ||
                (ckci_even_positions(&c->t[CKCI_OUT], &pitch) &&
                 ckci_tma_rows(c->t[CKCI_OUT].p, k->rows, positions, pitch, &t->box[0]))) &&
               ckci_tma_read(c, positions, &t->box[1]);
        if (good && !k->o.partial && k->o.t.dtype == CKCONV_F32 && ckci_weights_as_sums(&k->o.t)) {
            k->o.partial = k->o.t.p;
        }
        good = good && k->red % 2 == 0; /* sums go to memory in pairs */
    } else {
        const ckci_tensor *a = &c->t[c->op == CKCONV_BWD_DATA ? CKCI_OUT : CKCI_IN], *w = &c->t[CKCI_WEI];
        good = good &&
               (m->both     ? ckci_tma_rows(a->p, a->len[5], a->len[2], a->stride[2], &t->box[0])
                : m->layers ? ckci_tma_layers(a, &t->box[0])
                            : ckci_tma_read(c, positions, &t->box[0])) &&
               (m->copied || ckci_tma_weights(w, c->op == CKCONV_BWD_DATA && !across ? 1 : 2, &t->box[1]));
        if (m->copied) {
            t->box[1].p = w->p;
            t->box[1].stride[1] = w->stride[0];
            t->box[1].stride[2] = w->stride[1];
        }
    }
    if (good && !weight && !m->adds && !m->fold && ckci_tma_sums(m)) {
        k->o.partial = k->o.t.p;
    } else if (good && !m->fold && !m->adds && !(weight && k->o.t.dtype == CKCONV_F32)) {
        good = ckci_tma_epilogue(m, weight);
        if (weight) {
            good = good && ckci_tma_weights(&k->o.t, 2, &t->box[2]);
        } else if (m->plane) {
            ckci_tma_planes(k, m->plane, &t->box[2]);
        } else if (!m->phased) {
            good = good && ckci_tma_written(k, positions, &t->box[2]);
        }
        residual = k->o.residual > 0;
        if (residual) {
            const int32_t rows = m->tile->rows / (m->turns ? 2 : 1), stage = (rows + m->tile->columns) * 128;
            t->box[3] = t->box[2];
            t->box[3].p = k->o.d[k->o.residual - 1].p;
            /* they lie where a stage would; planes of twos or ones have too many pieces (H200, 7 x 7: twice
               as slow as other tiles) */
            t->places = (int32_t)ckci_min(stage / (2 * CKCI_TMA_BOX_BYTES), CKCI_TMA_RESIDUALS);
            good = good && t->places > 0 && !m->copied &&
                   (t->box[2].rank > 0 || ((m->plane || k->o.across) && t->box[2].rows == 4));
        }
    } else if (weight && !m->fold) {
        good = good && ckci_weights_as_sums(&k->o.t) && k->o.form == CKCI_FORM_STORE;
    }
    if (!good) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "the TMA takes one group, channels last in multiples of 8 (or 1x1 layers, channels first, "
            "positions in multiples of 8), positions at even distances, and of "
            "epilogues numbers for each channel, a residual (not in odd planes) and bounds");
    }
    /* rows along the reduction, where operands lie across it */
    t->rows = m->turns ? m->tile->rows / 2 : m->tile->rows;
    t->stages = CKCI_TMA_STAGES(t->rows + m->tile->columns);
    if (residual) {
        t->stages--;
        t->residual = t->stages * (t->rows + m->tile->columns) * 128;
    }
    t->turns = m->turns;
    t->skip = (int32_t)(steps % t->stages);
    t->both = m->both;
    t->box[0].rows = weight || m->both ? +CKCI_TMA_BOX : t->rows;
    t->box[1].rows = CKCI_TMA_BOX;
    for (int i = 0; i < 4; i++) {
        t->box[i].wide = CKCI_TMA_BOX;
    }
    if (weight && m->plane) {
        t->box[0].wide = wide;
        t->box[0].rows = m->tile->rows;
    }
    if (!weight) {
        wide = ckci_tma_wide(k);
        t->box[0].wide = wide;
        t->subs = CKCI_TMA_BOX / wide;
        if (across) {
            t->box[1].rows = wide;
        } else { /* all columns in a box, but where 64s of them are more than there are */
            t->box[1].wide = wide;
            t->box[1].rows = k->columns < m->tile->columns        ? (k->columns + 7) / 8 * 8
                             : k->columns % m->tile->columns == 0 ? m->tile->columns
                                                                  : +CKCI_TMA_BOX;
        }
    }
    t->turned = c->op == CKCONV_BWD_DATA;
    t->box[2].rows = t->box[2].rank ? +CKCI_TMA_BOX : t->box[2].rows;
    t->box[3].rows = t->box[2].rows;
    t->plane = (int32_t)m->plane;
    t->by_plane = ckci_make_divisor(ckci_max(m->plane, 1));
    t->images = (int32_t)c->g;
    t->trim = k->trim;
    t->by_rows = ckci_make_divisor(k->tiles_m);
    t->multicast = m->multicast;
    if (t->multicast) {
        t->box[1].rows = CKCI_TMA_BOX; /* each block sends half of them */
        t->by_rows = ckci_make_divisor((k->tiles_m + 1) / 2);
    }
    t->tiles = (int32_t)t->by_rows.d * k->tiles_n * t->images;
    /* of several images the last columns, where they are few, come last: they fill up a round (of 784
       positions a seventh tile has 16) */
    const int64_t rest = k->columns % m->tile->columns;
    const int few = t->images > 1 && k->tiles_n > 1 && rest > 0 && 2 * rest <= m->tile->columns;
    t->across = k->tiles_n - few;
    t->full = t->tiles / k->tiles_n * t->across;
    t->by_across = ckci_make_divisor(t->across);
    int64_t work = t->tiles * parts, units = ckci_tma_units(device, m), all = steps;
    t->whole = (int32_t)(m->shares ? ckci_tma_whole(units, t->tiles) : work);
    if (m->phased) { /* tiles follow each other in all phases; none is taken whole */
        ckci_make_phases(c, t->box[0].wide, &t->phases);
        all = t->phases.at[t->phases.count];
        units = ckci_min(units, t->tiles * all);
        t->whole = 0;
    }
    t->cluster = m->cluster > 1 ? m->cluster : 1;
    t->workers = (int32_t)(m->cluster > 1 ? work : m->shares ? units : ckci_min(work, units));
    t->steps = (int32_t)all;
    t->by_steps = ckci_make_divisor(all);
    if (m->shares) {
        const int64_t left = (t->tiles - t->whole) * all;
        t->share = (int32_t)(left / t->workers);
        t->share_rest = (int32_t)(left % t->workers);
        t->slots = m->slots;
    }
    t->taps = (int32_t)taps;
    t->blocks = (int32_t)ckci_ceil_div(k->red, CKCI_TMA_BOX);
    t->layers = m->layers && taps > 1;
    if (t->layers) {
        t->blocks = (int32_t)ckci_ceil_div(k->red, t->box[0].wide);
    }
    t->by_tiles = ckci_make_divisor(t->tiles);
    t->by_parts = ckci_make_divisor(parts);
    t->by_all_taps = ckci_make_divisor(taps);
    t->by_blocks = ckci_make_divisor(t->blocks);
    t->by_taps[0] = ckci_make_divisor(c->filter[2]);
    t->by_taps[1] = ckci_make_divisor(c->filter[1]);
    m->l.grid = t->workers << t->multicast;
    m->l.cluster = t->multicast ? 2 : t->cluster;
    return CKCONV_OK;
}
