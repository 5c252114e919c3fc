#!/usr/bin/env python3
"""Layout and type conversion beside PyTorch's copy_ and a plain copy, in one process, alternating.

usage: transforms.py [--lib build/libckconv.so] [--rounds 3] [--rep 20]

The library is built as torch_peer.py says. TSV on stdout: shape conversion peer_us ckconv_us ratio (peer / ckconv)
copy_us share (time of a plain copy of as many bytes / ckconv). The destination is filled with NaN first and compared
with the peer's, bit for bit. Exit status 1 when a result was wrong.
SPDX-License-Identifier: MIT
"""
import argparse
import ctypes as ct
import sys

import torch

from torch_peer import I32, I64, Error, Tensor, measure

NHWGC, GNHWC, NGCHW, GKYXC, GKCYX = 1, 2, 3, 4, 5
# the axes G, N, C, y, x (G, K, C, y, x of weights) as they lie in memory
ORDER = {NHWGC: (1, 3, 4, 0, 2), GNHWC: (0, 1, 3, 4, 2), NGCHW: (1, 0, 2, 3, 4), GKYXC: (0, 1, 3, 4, 2),
         GKCYX: (0, 1, 2, 3, 4)}
NAME = {NHWGC: "NHWC", GNHWC: "GNHWC", NGCHW: "NCHW", GKYXC: "KYXC", GKCYX: "KCYX"}
TYPE = {"f32": (torch.float32, 2), "f16": (torch.float16, 3), "bf16": (torch.bfloat16, 4)}
ACTIVATIONS = [(1, 128, 64, 56, 56), (1, 128, 256, 14, 14), (1, 128, 512, 7, 7), (1, 64, 96, 55, 55),
               (1, 128, 3, 224, 224), (8, 64, 32, 28, 28)]
WEIGHTS = [(1, 2048, 1024, 3, 3), (1, 1024, 512, 5, 5)]
PAIRS = [("f16", "f16"), ("f32", "f32"), ("f32", "f16"), ("f16", "f32"), ("bf16", "f16")]


def cases():
    for shape in ACTIVATIONS:
        last = NHWGC if shape[0] == 1 else GNHWC
        for a, b in ((NGCHW, last), (last, NGCHW)):
            for types in PAIRS:
                yield shape, a, b, types
        yield shape, NGCHW, NGCHW, ("f32", "f16")
    for shape in WEIGHTS:
        for a, b in ((GKCYX, GKYXC), (GKYXC, GKCYX)):
            for types in PAIRS[:2]:
                yield shape, a, b, types


def tensor(shape, layout, torch_type):
    """Random numbers that lie in this layout, as a view G, N, C, y, x."""
    order = ORDER[layout]
    lies = torch.randn([shape[i] for i in order], device="cuda").to(torch_type)
    return lies.permute([order.index(i) for i in range(5)])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib", default="build/libckconv.so")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--rep", type=int, default=20)
    o = p.parse_args()
    lib, error, wrong = ct.CDLL(o.lib), Error(), 0
    device = (ct.c_char * 4096)()  # a ckconv_device, and room
    if lib.ckconv_device_gpu(0, device, ct.byref(error)):
        sys.exit(error.text.decode())
    stream = ct.c_void_p(torch.cuda.current_stream().cuda_stream)
    print("# %s torch %s" % (torch.cuda.get_device_name(), torch.__version__))
    print("shape\tconversion\tpeer_us\tckconv_us\tratio\tcopy_us\tshare")
    for shape, a, b, types in cases():
        src, want = tensor(shape, a, TYPE[types[0]][0]), tensor(shape, b, TYPE[types[1]][0])
        dst = want.clone(memory_format=torch.preserve_format).fill_(float("nan"))
        length = (I64 * 5)(*shape)
        descs = [Tensor(dtype=TYPE[t][1], layout=layout) for t, layout in zip(types, (a, b))]

        def ours():
            if lib.ckconv_device_transform(device, I32(2), length, ct.byref(descs[0]), ct.c_void_p(src.data_ptr()),
                                           ct.byref(descs[1]), ct.c_void_p(dst.data_ptr()), stream, ct.byref(error)):
                raise RuntimeError(error.text.decode())

        size = (src.nbytes + dst.nbytes) // 2
        plain = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
        ours()
        want.copy_(src)
        if not torch.equal(dst, want):
            wrong += 1
            print("# wrong: the next line")
        peer, mine, copy = measure([lambda: want.copy_(src), ours, lambda: plain[1].copy_(plain[0])], o.rounds, o.rep)
        print("%s\t%s %s -> %s %s\t%.1f\t%.1f\t%.2f\t%.1f\t%.2f" %
              ("x".join(map(str, shape)), NAME[a], types[0], NAME[b], types[1], peer, mine, peer / mine, copy, copy / mine),
              flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
