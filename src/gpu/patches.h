/*------------------------------------------------------------------------------------------------------------
  >>gpu-patches
  Filters that step by their own size, whose pixels do not lie as one row of channels (ckci_fold_patches): a
  launch of transforms turns in's patches into rows [n][z][y][x][channels and taps, in the order of the
  weights], and what is left is a layer of one tap, planned like any other. bwd_data writes such rows, and the
  launch comes after.
*/
#pragma once
#include "gpu/matrix.h"

/* The tensors of the move: in as patches, and its rows, `bytes` of workspace. */
typedef struct ckci_patches {
    ckci_tensor in, rows;
    int64_t bytes;
} ckci_patches;

/* Channels and taps of a filter as one row, as dense weights have them: the step of each of c, z, y, x (0..3)
   in such a row, and their order, the innermost first. Zero: weights are not dense. */
CKCI_FN int ckci_patch_order(const ckci_tensor *w, int64_t step[4], int order[4])
{
    int64_t next = 1;
    int done[4] = {0, 0, 0, 0};
    for (int turns = 0; turns < 4; turns++) {
        int least = -1;
        for (int i = 0; i < 4; i++) {
            least = !done[i] && (least < 0 || w->stride[2 + i] * (w->len[2 + i] > 1) <
                                                  w->stride[2 + least] * (w->len[2 + least] > 1))
                        ? i
                        : least;
        }
        done[least] = 1;
        order[turns] = least;
        step[least] = next;
        if (w->len[2 + least] > 1 && w->stride[2 + least] != next) {
            return 0;
        }
        next = ckci_saturating_mul(next, w->len[2 + least]);
    }
    return 1;
}

/* A tensor of patches, [n][c][y][filter y][x][filter x]. */
CKCI_FN void ckci_patch_tensor(const ckci_conv *p, int64_t n, int64_t c, int64_t y, int64_t filter_y,
                               int64_t x, int64_t filter_x, ckci_tensor *t)
{
    const int64_t len[6] = {p->n, p->c, p->output[1], p->filter[1], p->output[2], p->filter[2]};
    const int64_t stride[6] = {n, c, y, filter_y, x, filter_x};
    memcpy(t->len, len, sizeof len);
    memcpy(t->stride, stride, sizeof stride);
}

/* Patches of p's in, whose rows have `row` numbers, at ws; step: as ckci_patch_order has it. */
CKCI_FN void ckci_make_patches(const ckci_conv *p, int64_t row, const int64_t step[4], unsigned char *ws,
                               ckci_patches *r)
{
    const ckci_tensor *in = &p->t[CKCI_IN];
    const int64_t line = ckci_saturating_mul(row, p->output[2]),
                  all = ckci_saturating_mul(line, p->output[1]);
    r->in = r->rows = *in;
    r->rows.p = ws;
    r->bytes = ckci_saturating_mul(ckci_saturating_mul(all, p->n), (int64_t)ckci_size(in->dtype));
    r->bytes = ckci_saturating_mul(ckci_ceil_div(r->bytes, 256), 256);
    ckci_patch_tensor(p, in->stride[1], in->stride[2], in->stride[4] * p->filter[1], in->stride[4],
                      in->stride[5] * p->filter[2], in->stride[5], &r->in);
    ckci_patch_tensor(p, all, step[0], line, step[2], row, step[3], &r->rows);
}

/* The layer of one tap whose in is a row of `row` numbers, channels and taps, for each position of p's out:
   [n][z][y][x][row] at ws. */
CKCI_FN void ckci_row_layer(const ckci_conv *p, int64_t row, unsigned char *ws, ckci_conv *c)
{
    ckci_tensor *rows = &c->t[CKCI_IN], *w = &c->t[CKCI_WEI];
    *c = *p;
    c->c = rows->len[2] = w->len[2] = row;
    rows->p = ws;
    rows->stride[0] = row;
    rows->stride[2] = w->stride[2] = 1;
    for (int i = 2; i >= 0; i--) {
        rows->stride[3 + i] = row;
        row = ckci_saturating_mul(row, p->output[i]);
        c->input[i] = rows->len[3 + i] = p->output[i];
        c->filter[i] = c->stride[i] = c->dilation[i] = w->len[3 + i] = 1;
        c->pad[i] = 0;
    }
    rows->stride[1] = row;
}

/* What the move costs. It comes near a copy's bandwidth where runs of patches are pieces of 8 or 16 bytes in
   both tensors; numbers, and pieces of 4 bytes, took 70 times as long (H100, 38 MB of 2 x 2 patches). */
CKCI_FN double ckci_patches_cost(const ckci_patches *r, const ckconv_device *device)
{
    static const int order[3] = {5, 3, 1}; /* along x, y, channels */
    const int64_t size = (int64_t)ckci_size(r->in.dtype);
    int64_t run = 1, piece = 16;
    int inside = 1;
    for (int i = 0; i < 3; i++) {
        const int axis = order[i];
        inside =
            inside && (r->in.len[axis] == 1 || (r->in.stride[axis] == run && r->rows.stride[axis] == run));
        run *= inside ? r->in.len[axis] : 1;
        piece = inside ? piece
                       : ckci_gcd(ckci_gcd(piece, r->in.stride[axis] * size), r->rows.stride[axis] * size);
    }
    for (int axis = 0; axis < 6; axis += 2) { /* batch, y and x of patches */
        if (r->in.len[axis] > 1) {
            piece = ckci_gcd(ckci_gcd(piece, r->in.stride[axis] * size), r->rows.stride[axis] * size);
        }
    }
    piece = ckci_gcd(piece, run * size);
    return ckci_move_cost(device, (double)r->bytes) * (piece < 8 ? 70 : 1);
}

CKCI_FN ckconv_status ckci_find_patches(const ckci_conv *p, const ckconv_device *device, int64_t limit,
                                        unsigned char *ws, ckci_rest *r, ckconv_error *err)
{
    const ckci_tensor *in = &p->t[CKCI_IN];
    const int back = p->op == CKCONV_BWD_DATA;
    int64_t step[4] = {0, 0, 0, 0};
    int order[4];
    int fits = p->g == 1 && p->n > 0 && p->filter[0] == 1 && p->input[0] == 1 &&
               p->filter[1] * p->filter[2] > 1 && (p->op == CKCONV_FWD || p->num_d == 0) &&
               in->op.kind == CKCONV_PASS && (back || in->compute == in->dtype) &&
               ckci_patch_order(&p->t[CKCI_WEI], step, order);
    for (int i = 0; i < 3; i++) {
        int64_t covered = p->output[i] * p->filter[i];
        fits = fits && (p->stride[i] == p->filter[i] || p->output[i] == 1) && p->pad[i] == 0 &&
               (p->dilation[i] == 1 || p->filter[i] == 1) && covered > 0 &&
               (back ? covered == p->input[i] : covered <= p->input[i]);
    }
    if (!fits) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "patches are of 1D and 2D filters that step by their own size, in one group, without "
            "pads, dilation or operations on in, D tensors only of out, and weights that are dense");
    }
    const int64_t row = ckci_saturating_mul(p->c, p->filter[1] * p->filter[2]);
    ckci_patches patches;
    ckci_make_patches(p, row, step, ws, &patches);
    r->bytes = patches.bytes;
    if (r->bytes > limit) {
        return ckci_over_limit("in as rows of patches", r->bytes, err);
    }
    ckci_row_layer(p, row, ws, &r->conv);
    r->ns = ckci_patches_cost(&patches, device);
    return back ? ckci_make_move(device, &patches.rows, &patches.in, &r->l, err)
                : ckci_make_move(device, &patches.in, &patches.rows, &r->l, err);
}

CKCI_FN ckconv_status ckci_fit_patches(ckci_fit *f, ckconv_error *err)
{
    return ckci_fit_rest(f, ckci_find_patches, err);
}

CKCI_FN ckconv_status ckci_list_patches(const ckconv_plan *plan, const ckci_problem *p,
                                        const ckconv_args *args, unsigned char *ws, const ckci_gpu_tile *tile,
                                        const ckci_emitter *e, ckconv_error *err)
{
    (void)args;
    (void)tile;
    return ckci_list_rest(plan, &p->conv, ckci_find_patches, ws, e, err);
}
