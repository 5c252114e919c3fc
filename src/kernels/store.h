/*------------------------------------------------------------------------------------------------------------
  >>k-store
  Eight neighbouring finished values at once.
*/
#pragma once
#include "kernels/epilogue.h"

/* Eight neighbouring finished values, aligned together. */
CKCI_K_FN void ckci_k_store8(int32_t dtype, unsigned char *p, const int32_t *v)
{
    if (dtype == CKCONV_I32) {
        ((ckci_k_uint4 *)p)[0] = *(const ckci_k_uint4 *)v;
        ((ckci_k_uint4 *)p)[1] = *(const ckci_k_uint4 *)(v + 4);
        return;
    }
    uint32_t two[2] = {0, 0};
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        int32_t x = v[i] < -128 ? -128 : v[i] > 127 ? 127 : v[i];
        two[i / 4] |= ((uint32_t)x & 0xffu) << i % 4 * 8;
    }
    const ckci_k_uint2 packed = {two[0], two[1]};
    *(ckci_k_uint2 *)p = packed;
}

CKCI_K_FN void ckci_k_store8(int32_t, unsigned char *p, const double *v)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        ((ckci_k_uint4 *)p)[i] = ((const ckci_k_uint4 *)v)[i];
    }
}

CKCI_K_FN void ckci_k_store8(int32_t dtype, unsigned char *p, const float *v)
{
    if (dtype == CKCONV_F32) {
        ((ckci_k_uint4 *)p)[0] = *(const ckci_k_uint4 *)v;
        ((ckci_k_uint4 *)p)[1] = *(const ckci_k_uint4 *)(v + 4);
        return;
    }
    ckci_k_uint4 a = ((const ckci_k_uint4 *)v)[0], b = ((const ckci_k_uint4 *)v)[1], packed;
    packed.x = ckci_k_two(dtype, a.x, a.y);
    packed.y = ckci_k_two(dtype, a.z, a.w);
    packed.z = ckci_k_two(dtype, b.x, b.y);
    packed.w = ckci_k_two(dtype, b.z, b.w);
    *(ckci_k_uint4 *)p = packed;
}

/* `count` (1 or 8) columns c, ... of one position. v lies in LDS and is overwritten. */
template <class T>
CKCI_K_FN void ckci_k_write8(const ckci_gpu_conv &conv, T *v, int32_t count, int32_t g, int32_t n, int32_t c,
                             int32_t columns, int32_t z, int32_t y, int32_t x)
{
    const ckci_gpu_conv &p = ckci_k_late(conv);
    const bool together = p.o_vec && count == 8;
    if (!together || p.o.t.op.kind != CKCONV_PASS || p.o.scale || p.o.shift || p.o.compute) {
        CKCI_K_UNROLL(1)
        for (int i = 0; i < count && c + i < columns; i++) {
            v[i] = ckci_k_finish<T>(p.o, v[i], g, n, c + i, z, y, x);
            if (!together) {
                ckci_k_put<T>(p.o, v[i], g, n, c + i, z, y, x);
            }
        }
    }
    if (!together) {
        return;
    }
    const ckci_tensor &t = p.o.t;
    int64_t at = g * t.stride[0] + n * t.stride[1] + c + z * t.stride[3] + y * t.stride[4] + x * t.stride[5];
    ckci_k_store8(t.dtype, t.p + at * ckci_k_size(t.dtype), v);
}
