#!/usr/bin/env python3
"""What epilogues cost: forward layers of all families with each of seven, beside the plain store and beside cuDNN.

usage: epilogues.py [--lib build/libckconv.so] [--dtype bf16|f16|f32] [--layout last|first] [--match REGEX] [--rep MS]

One process, alternating: each layer's plain store, its epilogues and PyTorch's cudnn_convolution_relu and
cudnn_convolution_add_relu take turns three times under triton's do_bench (256 MB written before each run); a time is
the least of the three medians. Every result is compared with PyTorch's in f32.

stdout, TSV: the layer, the instance of its plain store and its us; for each epilogue its us and, after a blank, its
time less the bytes of its own tensors at 2.6 TB/s, over the plain store's; cuDNN's us. Then how many are above 1.05.
Exit status 1 when a result was wrong.
SPDX-License-Identifier: MIT
"""
import argparse
import os
import re
import sys

import torch
import torch.nn.functional as F
from triton.testing import do_bench

import torch_peer as peer

CODE = {"f32": (2, torch.float32), "f16": (3, torch.float16), "bf16": (4, torch.bfloat16)}
LIMIT = {"f32": 2e-4, "f16": 2e-2, "bf16": 3e-2}
BILINEAR, BIAS, BIAS_RELU, BIAS_RESIDUAL_RELU, SCALE_SHIFT, RELU_BWD, SILU_BWD = 16, 18, 19, 20, 26, 32, 35
CHANNEL = 6  # a D tensor of one number per channel
ALPHA, BETA = 1.5, .5
# Name: kind, layouts of its D tensors (0: as the output lies), what it makes of the sums.
EPILOGUES = {
    "bias": (BIAS, [CHANNEL], lambda y, a: y + a),
    "bias_relu": (BIAS_RELU, [CHANNEL], lambda y, a: (y + a).relu()),
    "scale_shift": (SCALE_SHIFT, [CHANNEL, CHANNEL], lambda y, a, b: y * a + b),
    "residual": (BIAS_RESIDUAL_RELU, [CHANNEL, 0], lambda y, a, b: (y + a + b).relu()),
    "bilinear": (BILINEAR, [0], lambda y, a: ALPHA * y + BETA * a),
    "relu_bwd": (RELU_BWD, [0], lambda y, a: y * (a > 0)),
    "silu_bwd": (SILU_BWD, [0], lambda y, a: y * (a.sigmoid() * (1 + a * (1 - a.sigmoid()))))}
# Groups, batch, channels written and read per group, filter, input, stride, padding, dilation.
LAYERS = """
    dense_320        1   8  320  320  3,3    64,64    1  1  1
    dense_64         1  64   64   64  3,3    56,56    1  1  1
    dense_128        1  64  128  128  3,3    28,28    1  1  1
    dense_256        1  64  256  256  3,3    14,14    1  1  1
    dense_512        1  64  512  512  3,3    7,7      1  1  1
    dense_stride_2   1  32  256  256  3,3    28,28    2  1  1
    dense_64_224     1  32   64   64  3,3    224,224  1  1  1
    dilation_36      1   8  256 2048  3,3    65,65    1 36 36
    1x1_64_256       1  64  256   64  1,1    56,56    1  0  1
    1x1_256_64       1  64   64  256  1,1    56,56    1  0  1
    1x1_512_2048     1  64 2048  512  1,1    7,7      1  0  1
    1x1_1024_256     1  64  256 1024  1,1    14,14    1  0  1
    1x1_256_1024     1  64 1024  256  1,1    14,14    1  0  1
    1x1_24_72        1  64   72   24  1,1    56,56    1  0  1
    1x1_16_96        1  32   96   16  1,1    112,112  1  0  1
    1x1_80_480       1  64  480   80  1,1    14,14    1  0  1
    1x1_12_36        1  64   36   12  1,1    56,56    1  0  1
    one_pixel        1  64  480   20  1,1    1,1      1  0  1
    fully_connected  1  64 1000 2048  1,1    1,1      1  0  1
    stem_7x7         1  64   64    3  7,7    224,224  2  3  1
    stem_3x3         1  32   32    3  3,3    224,224  2  1  1
    patches_4x4      1  32   96    3  4,4    224,224  4  0  1
    depthwise_7x7   96  32    1    1  7,7    56,56    1  3  1
    depthwise_5x5  240  64    1    1  5,5    28,28    1  2  1
    depthwise_3x3  384  32    1    1  3,3    14,14    1  1  1
    depthwise_s2    96  32    1    1  3,3    112,112  2  1  1
    groups_of_4     32  64    4    4  3,3    56,56    1  1  1
    groups_of_8     32  64    8    8  3,3    28,28    1  1  1
    groups_of_24     3  64   24   24  3,3    56,56    1  1  1
    volume_64        1   8   64   64  3,3,3  16,56,56 1  1  1
"""


def read():
    for line in LAYERS.split("\n"):
        if line.strip():
            name, g, n, k, c, filter, input, stride, pad, dilation = line.split()
            yield (name, int(g), int(n), int(k), int(c), peer.numbers(filter), peer.numbers(input), int(stride), int(pad),
                   int(dilation))


class Layer:
    """One layer's tensors, and its calls on both sides."""

    def __init__(self, lib, o, g, n, k, c, filter, input, stride, pad, dilation):
        self.lib, self.limit, self.first = lib, LIMIT[o.dtype], o.layout == "first"
        self.code, self.type = CODE[o.dtype]
        self.ndim, axes = len(input), len(input)
        self.desc = (g, n, k, c, filter, input, stride, pad, dilation)
        self.x, self.w = self.random(n, g * c, *input), self.random(g * k, c, *filter, scale=(c * 9) ** -.5)
        self.place = [stride] * axes, [pad] * axes, [dilation] * axes, g
        conv = F.conv2d if axes == 2 else F.conv3d
        self.sums = conv(self.x, self.w, None, *self.place).float()
        self.out = torch.empty_like(self.ordered(self.sums.to(self.type)))
        self.vectors = [self.random(g * k), self.random(g * k)]
        self.beside = self.random(*self.out.shape)

    def ordered(self, t):
        if self.first or t.dim() < 4:
            return t.contiguous()
        return t.contiguous(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)

    def random(self, *shape, scale=1.0):
        return self.ordered(torch.randn(shape, device="cuda", dtype=self.type) * scale)

    def ours(self, kind=0, layouts=(), formula=lambda y: y):
        """A call of ckconv, its instance, the bytes of its D tensors, whether it is right."""
        g, n, k, c, filter, input, stride, pad, dilation = self.desc
        d = peer.Conv(ndim=self.ndim, g=g, n=n, k=k, c=c)
        for name, value in (("filter", filter), ("input", input), ("stride", [stride] * self.ndim),
                            ("dilation", [dilation] * self.ndim), ("pad_lo", [pad] * self.ndim),
                            ("pad_hi", [pad] * self.ndim)):
            peer.fill(getattr(d, name), value)
        d.in_.dtype = self.code
        if self.first:
            d.in_.layout = d.out.layout = peer.NGCHW
            d.wei.layout = peer.GKCYX
        d.op_out.kind, d.num_d = kind, len(layouts)
        if kind == BILINEAR:
            d.op_out.alpha, d.op_out.beta = ALPHA, BETA
        tensors, wide, spare = {}, [], iter(self.vectors)
        for i, layout in enumerate(layouts):
            d.d[i].layout = layout or d.out.layout
            t = next(spare) if layout else self.beside
            tensors["d%d" % i] = t
            wide.append(t.view([-1] + [1] * self.ndim) if layout else t)
        plan, run = self.lib.plan("fwd", d)
        args = peer.Args(**{name: t.data_ptr() for name, t in tensors.items()}, in_=self.x.data_ptr(),
                         wei=self.w.data_ptr(), out=self.out.data_ptr())
        self.out.fill_(float("nan"))
        run(args)
        right = peer.largest_error([(self.out, formula(self.sums, *[t.float() for t in wide]))]) <= self.limit
        own = sum(t.numel() * t.element_size() for t in tensors.values())
        return lambda: run(args), self.lib.c.ckconv_instance_name(plan.instance).decode(), own, right

    def cudnn(self):
        """cuDNN's two fused calls, None where it has none."""
        stride, pad, dilation, g = self.place
        calls = [lambda: torch.cudnn_convolution_relu(self.x, self.w, self.vectors[0], stride, pad, dilation, g),
                 lambda: torch.cudnn_convolution_add_relu(self.x, self.w, self.beside, 1.0, self.vectors[0], stride, pad,
                                                          dilation, g)]
        for i, call in enumerate(calls):
            try:
                call()
            except RuntimeError:
                calls[i] = None
        return calls


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    p.add_argument("--lib", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "libckconv.so"))
    p.add_argument("--dtype", default="bf16", choices=list(CODE))
    p.add_argument("--layout", default="last", choices=["last", "first"])
    p.add_argument("--match", default="")
    p.add_argument("--rep", type=float, default=4)
    o = p.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    lib = peer.Library(o.lib)
    print("# %s, torch %s, %s, channels %s" % (torch.cuda.get_device_name(), torch.__version__, o.dtype, o.layout))
    print("layer", "instance", "plain", *EPILOGUES, "cudnn_relu", "cudnn_add_relu", sep="\t")
    above, wrong, behind, ratios = {name: 0 for name in EPILOGUES}, 0, [0, 0], [[], []]
    for name, *numbers in read():
        if not re.search(o.match, name):
            continue
        layer = Layer(lib, o, *numbers)
        ways = [layer.ours()] + [layer.ours(*e) for e in EPILOGUES.values()]
        calls = [way[0] for way in ways] + layer.cudnn()
        us = [float("inf")] * len(calls)
        for _ in range(3):
            for i, call in enumerate(calls):
                if call:
                    us[i] = min(us[i], do_bench(call, warmup=2, rep=o.rep, return_mode="median") * 1e3)
        cells = []
        for epilogue, way, t in zip(EPILOGUES, ways[1:], us[1:]):
            over = (t - way[2] / 2.6e6) / us[0]
            above[epilogue] += over > 1.05
            other = "" if way[1] == ways[0][1] else " " + way[1]
            cells.append("%.1f %.2f%s%s" % (t, over, other, "" if way[3] else " WRONG"))
        wrong += sum(not way[3] for way in ways)
        for i, t in enumerate(us[-2:]):
            if t < float("inf"):
                mine = us[2 if i == 0 else 4]
                behind[i] += mine > t
                ratios[i].append(t / mine)
        print(name, ways[0][1], "%.1f" % us[0], *cells, *["%.1f" % t for t in us[-2:]], sep="\t", flush=True)
    print("# above 1.05 of the plain store and their own bytes:", *["%s %d" % item for item in above.items()])
    for i, call in enumerate(("cudnn_convolution_relu", "cudnn_convolution_add_relu")):
        if ratios[i]:
            mean = torch.tensor(ratios[i]).log().mean().exp().item()
            print("# beside %s: mean %.2f, behind in %d of %d" % (call, mean, behind[i], len(ratios[i])))
    if wrong:
        print("# WRONG: %d results" % wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
