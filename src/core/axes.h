/*------------------------------------------------------------------------------------------------------------
  >>core-axes
  Spatial axes that carry nothing leave a checked problem, and the others move to the innermost places. So a
  convolution has one final form, hence one plan, the same kernels and the same bits, whether it is written in
  1D, 2D or 3D, and whichever of its axes has size 1. Descriptions keep the axes of the caller.
*/
#pragma once
#include "core/check.h"

/* Does an axis have one written position, which is read through one tap, and nothing else? Of a longer axis
   of in only the first position is read, but bwd_data writes the others, too. */
CKCI_FN int ckci_idle_axis(const ckci_conv *p, int axis)
{
    return p->filter[axis] == 1 && p->output[axis] == 1 && p->pad[axis] == 0 &&
           (p->input[axis] == 1 || p->op != CKCONV_BWD_DATA);
}

/* Leaves out the values of idle axes: z, y and x move to the right, and `none` fills what is left free. */
CKCI_FN void ckci_close_up(int64_t v[3], const int idle[3], int64_t none)
{
    int to = 2;
    for (int i = 2; i >= 0; i--) {
        if (!idle[i]) {
            v[to--] = v[i];
        }
    }
    while (to >= 0) {
        v[to--] = none;
    }
}

/* The same with a tensor. Missing axes get the strides that layouts give them; where all three are missing, x
   gets that of channels side by side: every layout is one matrix then. A D tensor that is broadcast keeps its
   0. */
CKCI_FN void ckci_close_up_tensor(ckci_tensor *t, const int idle[3])
{
    int64_t *s = t->stride, x = s[5] == 0 ? 0 : ckci_saturating_mul(s[2], t->len[2]);
    ckci_close_up(t->len + 3, idle, 1);
    ckci_close_up(s + 3, idle, -1);
    for (int i = 5; i >= 3; i--) {
        if (s[i] < 0) {
            /* any number will do, but their bytes are counted */
            s[i] = ckci_min(i == 5 ? x : ckci_saturating_mul(s[i + 1], t->len[i + 1]), CKCI_MAX_BYTES / 8);
        }
    }
}

CKCI_FN void ckci_close_up_conv(ckci_conv *p, const int idle[3])
{
    ckci_close_up(p->filter, idle, 1);
    ckci_close_up(p->input, idle, 1);
    ckci_close_up(p->output, idle, 1);
    ckci_close_up(p->stride, idle, 1);
    ckci_close_up(p->dilation, idle, 1);
    ckci_close_up(p->pad, idle, 0);
    for (int i = 0; i < 3; i++) {
        ckci_close_up_tensor(&p->t[i], idle);
    }
    for (int i = 0; i < p->num_d; i++) {
        ckci_close_up_tensor(&p->d[i], idle);
    }
}

CKCI_FN void ckci_drop_conv(ckci_conv *p)
{
    int idle[3];
    for (int i = 0; i < 3; i++) {
        idle[i] = ckci_idle_axis(p, i);
    }
    ckci_close_up_conv(p, idle);
}

/* Mid has its axes from both convolutions. */
CKCI_FN void ckci_drop_pair(ckci_conv_conv *p)
{
    int idle[3];
    for (int i = 0; i < 3; i++) {
        idle[i] = ckci_idle_axis(&p->first, i) && ckci_idle_axis(&p->second, i);
    }
    ckci_close_up_conv(&p->first, idle);
    ckci_close_up_conv(&p->second, idle);
}

CKCI_FN void ckci_swap(int64_t *v, int i, int j)
{
    int64_t x = v[i];
    v[i] = v[j];
    v[j] = x;
}

/* The same convolution with two of its axes exchanged. */
CKCI_FN void ckci_swap_axes(ckci_conv *p, int i, int j)
{
    ckci_swap(p->filter, i, j);
    ckci_swap(p->input, i, j);
    ckci_swap(p->output, i, j);
    ckci_swap(p->stride, i, j);
    ckci_swap(p->dilation, i, j);
    ckci_swap(p->pad, i, j);
    for (int t = 0; t < 3 + p->num_d; t++) {
        ckci_tensor *x = t < 3 ? &p->t[t] : &p->d[t - 3];
        ckci_swap(x->len, 3 + i, 3 + j);
        ckci_swap(x->stride, 3 + i, 3 + j);
    }
}

/* Do f neighbours along x lie in memory as one row of numbers? A D tensor of one number does, too. */
CKCI_FN int ckci_row_of_pixels(const ckci_tensor *t)
{
    return (t->stride[2] == 1 && t->stride[5] == t->len[2]) || (t->stride[2] == 0 && t->stride[5] == 0);
}

CKCI_FN void ckci_fold_tensor(ckci_tensor *t, int64_t f, int64_t left)
{
    t->len[2] *= f;
    t->len[5] = left;
    t->stride[5] *= f;
}

/* A filter that steps along x by its own size reads each pixel through one tap. Where memory holds a row of
   the filter as one row of numbers, its pixels become channels: patches of 16 x 16 pixels of 3 channels are
   16 x 1 of 48, two by two of 64 are 2 x 1 of 128. That leaves fewer taps, whole chunks (of `chunk`
   channels) of 16 bytes, and no phases in bwd_data. Small first layers stay as they are: their kernels read
   rows of pixels anyway. */
CKCI_FN void ckci_fold_patches(ckci_conv *p, int64_t chunk)
{
    int64_t f = p->filter[2], taps = p->filter[0] * p->filter[1] * f;
    int weight = p->op == CKCONV_BWD_WEIGHT, back = p->op == CKCONV_BWD_DATA;
    int fits = f > 1 && p->stride[2] == f && p->dilation[2] == 1 && p->pad[2] == 0 && p->g == 1 &&
               p->output[2] > 0 &&
               (back ? p->output[2] * f == p->input[2] : p->output[2] * f <= p->input[2]) &&
               ckci_row_of_pixels(&p->t[CKCI_IN]) && ckci_row_of_pixels(&p->t[CKCI_WEI]);
    fits = fits && (taps > 128 || p->filter[0] + p->filter[1] + f > 31 ||
                    (p->c * f % chunk == 0 && (p->c > 4 || taps * p->c > 256)));
    for (int i = 0; i < p->num_d && (weight || back); i++) {
        fits = fits && ckci_row_of_pixels(&p->d[i]);
    }
    if (!fits) {
        return;
    }
    ckci_fold_tensor(&p->t[CKCI_IN], f, p->output[2]);
    ckci_fold_tensor(&p->t[CKCI_WEI], f, 1);
    for (int i = 0; i < p->num_d && (weight || back); i++) {
        ckci_fold_tensor(&p->d[i], f, weight ? 1 : p->output[2]);
    }
    p->c *= f;
    p->input[2] = p->output[2];
    p->filter[2] = p->stride[2] = 1;
}

/* Do the positions of an axis and of the next one inside lie in memory as those of one? */
CKCI_FN int ckci_one_axis(const ckci_tensor *t, int axis)
{
    return t->len[3 + axis] == 1 ||
           t->stride[3 + axis] == ckci_saturating_mul(t->len[4 + axis], t->stride[4 + axis]);
}

/* Where neither axis has more than one tap and both move by one, every output is read at its own place. Then
   axes that are one in memory become one, so that small planes are long rows. */
CKCI_FN void ckci_merge_axes(ckci_conv *p)
{
    for (int axis = 1; axis >= 0; axis--) {
        int merges = 1;
        for (int i = axis; i < axis + 2; i++) {
            merges = merges && p->filter[i] == 1 && p->stride[i] == 1 && p->pad[i] == 0 &&
                     p->input[i] == p->output[i];
        }
        for (int i = 0; i < 3 + p->num_d; i++) {
            const ckci_tensor *t = i < 3 ? &p->t[i] : &p->d[i - 3];
            merges =
                merges && (i == CKCI_WEI || (i >= 3 && p->op == CKCONV_BWD_WEIGHT) || ckci_one_axis(t, axis));
        }
        if (!merges || p->input[axis] == 1) {
            continue;
        }
        for (int i = 0; i < 3 + p->num_d; i++) {
            ckci_tensor *t = i < 3 ? &p->t[i] : &p->d[i - 3];
            t->len[4 + axis] *= t->len[3 + axis];
            t->len[3 + axis] = 1;
        }
        p->input[axis + 1] *= p->input[axis];
        p->output[axis + 1] = p->input[axis + 1];
        p->input[axis] = p->output[axis] = 1;
    }
    ckci_drop_conv(p);
}

/* Tensors of one shape: those of a group norm or a transform. */
CKCI_FN void ckci_drop_tensors(ckci_tensor *const *t, int count)
{
    int idle[3];
    for (int i = 0; i < 3; i++) {
        idle[i] = t[0]->len[3 + i] == 1;
    }
    for (int i = 0; i < count; i++) {
        ckci_close_up_tensor(t[i], idle);
    }
}
