/*------------------------------------------------------------------------------------------------------------
  >>plan-transform
  Layout and type conversion of a tensor, on the CPU and on a GPU. It is no plan: the call checks both tensors
  and moves elements at once, on threads or by one launch of >>gpu-move. Items own the positions that they
  write. No arithmetic but one rounding happens on the way.
*/
#pragma once
#include "plan/run.h"
#include "core/axes.h"

typedef struct ckci_move {
    const ckci_tensor *src, *dst;
} ckci_move;

/* A work item moves all positions of one pair of the two outermost axes. */
CKCI_FN void ckci_move_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_move *m = (const ckci_move *)context;
    const int64_t *len = m->dst->len;
    int64_t at[6], from = (int64_t)ckci_size(m->src->dtype), to = (int64_t)ckci_size(m->dst->dtype);
    (void)scratch;
    at[1] = item % len[1];
    at[0] = item / len[1];
    for (at[2] = 0; at[2] < len[2]; at[2]++) {
        for (at[3] = 0; at[3] < len[3]; at[3]++) {
            for (at[4] = 0; at[4] < len[4]; at[4]++) {
                at[5] = 0;
                const unsigned char *p = m->src->p + ckci_offset(m->src->stride, at) * from;
                unsigned char *q = m->dst->p + ckci_offset(m->dst->stride, at) * to;
                for (int64_t x = 0; x < len[5]; x++) {
                    const unsigned char *r = p + x * m->src->stride[5] * from;
                    unsigned char *w = q + x * m->dst->stride[5] * to;
                    if (m->src->dtype == m->dst->dtype) {
                        memcpy(w, r, (size_t)to);
                    } else {
                        ckci_store(m->dst->dtype, w, ckci_load(m->src->dtype, r));
                    }
                }
            }
        }
    }
}

/* Both tensors of a transform in their final form; element: alignment that pointers must have. */
CKCI_FN ckconv_status ckci_check_transform(int32_t ndim, const int64_t *length, const ckconv_tensor *src_desc,
                                           const void *src, const ckconv_tensor *dst_desc, void *dst, int gpu,
                                           ckci_tensor t[2], ckconv_error *err)
{
    int64_t len[6];
    CKCI_TRY(ckci_check_held("transform", CKCI_WHY_TRANSFORM, err));
    if (ndim < 1 || ndim > 3) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "ndim is %d: must be 1, 2 or 3", (int)ndim);
    }
    if (!length || !src_desc || !dst_desc) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL",
                         !length     ? "length"
                         : !src_desc ? "src_desc"
                                     : "dst_desc");
    }
    for (int i = 0; i < 6; i++) {
        int from = i < 3 ? i : i - (3 - ndim);
        len[i] = i < 3 || from >= 3 ? length[from] : 1;
        if (i < 3 || from >= 3) {
            CKCI_TRY(
                ckci_check_range("", "length", "", from, len[i], i == 1 ? 0 : 1, "1 or more (0 for N)", err));
        }
    }
    for (int i = 0; i < 2; i++) {
        ckconv_tensor d = i == 0 ? *src_desc : *dst_desc;
        const char *name = i == 0 ? "src_desc" : "dst_desc";
        int weight = d.layout == CKCONV_GKYXC || d.layout == CKCONV_GKCYX;
        ckci_default_tensor(&d, CKCONV_F32, CKCONV_NHWGC);
        CKCI_TRY(ckci_check_tensor("", name, &d, weight ? CKCI_ROLE_WEIGHT : CKCI_ROLE_ACTIVATION, 3 + ndim,
                                   0, err));
        CKCI_TRY(ckci_resolve("", name, &d, ndim, len, i == 1, &t[i], err));
    }
    ckci_tensor *both[2];
    both[0] = &t[0];
    both[1] = &t[1];
    ckci_drop_tensors(both, 2);
    t[0].p = (unsigned char *)(uintptr_t)src;
    t[1].p = (unsigned char *)dst;
    ckci_buffer list[2];
    int count = 0;
    ckci_add_buffer(list, &count, "src", src, ckci_span(&t[0]), 0, 0, NULL);
    ckci_add_buffer(list, &count, "dst", dst, ckci_span(&t[1]), 1, 0, NULL);
    for (int i = 0; i < 2; i++) {
        list[i].element = (int32_t)ckci_size(t[i].dtype);
    }
    CKCI_TRY(ckci_check_buffers(list, count, err));
    return gpu ? ckci_check_alignment(list, count, err) : CKCONV_OK;
}

CKCONV_API ckconv_status ckconv_transform(int32_t ndim, const int64_t *length, const ckconv_tensor *src_desc,
                                          const void *src, const ckconv_tensor *dst_desc, void *dst,
                                          void *stream, ckconv_error *err)
{
    ckci_tensor t[2];
    ckci_move m;
    ckconv_device cpu;
    (void)stream;
    CKCI_TRY(ckci_check_transform(ndim, length, src_desc, src, dst_desc, dst, 0, t, err));
    m.src = &t[0];
    m.dst = &t[1];
    ckconv_device_cpu(&cpu);
    ckci_parallel(ckci_count(&t[0]) < 65536 ? 1 : cpu.threads, t[0].len[0] * t[0].len[1], ckci_move_item, &m,
                  NULL, 0);
    return ckci_ok(err);
}

CKCONV_API ckconv_status ckconv_device_transform(const ckconv_device *device, int32_t ndim,
                                                 const int64_t *length, const ckconv_tensor *src_desc,
                                                 const void *src, const ckconv_tensor *dst_desc, void *dst,
                                                 void *stream, ckconv_error *err)
{
    ckci_tensor t[2];
    ckci_launch l;
    if (!device) {
        return ckci_fail(err, CKCONV_ERR_NULL, "device is NULL");
    }
    CKCI_TRY(ckci_check_device(device, err));
    if (device->kind == CKCONV_DEVICE_CPU) {
        return ckconv_transform(ndim, length, src_desc, src, dst_desc, dst, stream, err);
    }
    CKCI_TRY(ckci_check_transform(ndim, length, src_desc, src, dst_desc, dst, 1, t, err));
    CKCI_TRY(ckci_check_current(device, err));
    if (ckci_count(&t[0]) > 0) {
        ckci_stream s;
        s.device = device;
        s.stream = stream;
        s.launches = 0;
        CKCI_TRY(ckci_make_move(device, &t[0], &t[1], &l, err));
        CKCI_TRY(ckci_launch_on_stream(&s, &l, err));
    }
    return ckci_ok(err);
}
