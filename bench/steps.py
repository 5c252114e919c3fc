#!/usr/bin/env python3
"""Whole training steps: PyTorch's own kernels beside ckconv's convolutions and group norms, one process, alternating.

usage: steps.py [--models REGEX] [--layout last|first] [--dtype bf16|f16|f32] [--steps 30] [--batch N] [--size N]
                [--device cuda|cpu] [--eager]

A step is forward, loss, backward and update (SGD with momentum), on synthetic data; on a GPU it is captured in a
CUDA graph once for each side and replayed (--eager: it is not). Models: resnet50, convnext_tiny, efficientnet_b0,
r3d_18 (torchvision's), sd_unet (the U-Net of Stable Diffusion 1 without its cross attention) and unet3d (a 3D U-Net
with instance norm, as nnU-Net has them), with the sizes of bench/nets.tsv. Both sides begin with the same weights.
--batch and --size cut them, for a try on a CPU.

stdout: a line per model: milliseconds of a step (medians) of PyTorch and of ckconv, PyTorch's / ckconv's, the losses
of the first step and of the last on both sides, and what ckconv left to PyTorch, if anything. Both sides clear
gradients in place, as graphs need them. Exit status 1 if a loss of the first step differs by more than a twentieth, of
the last by more than a fifth (models amplify how sums are rounded, dropout differs), or is no number; 2 if no model
has such a name.
SPDX-License-Identifier: MIT
"""
import argparse
import contextlib
import os
import re
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import ckconv_torch  # noqa: E402

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def norm(channels):
    return nn.GroupNorm(32, channels)


class Residual(nn.Module):
    """Two 3x3 convolutions behind group norms and SiLU; what stands for the time step is added between them."""

    def __init__(self, c, k):
        super().__init__()
        self.first = nn.Sequential(norm(c), nn.SiLU(), nn.Conv2d(c, k, 3, padding=1))
        self.second = nn.Sequential(norm(k), nn.SiLU(), nn.Conv2d(k, k, 3, padding=1))
        self.time = nn.Linear(1280, k)
        self.side = nn.Identity() if c == k else nn.Conv2d(c, k, 1)

    def forward(self, x, t):
        y = self.first(x) + self.time(t)[:, :, None, None]
        return self.side(x) + self.second(y)


def attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):  # PyTorch 2
        return F.scaled_dot_product_attention(q, k, v)
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -.5).softmax(-1) @ v


class Attention(nn.Module):
    """Self-attention of eight heads over all pixels, and a perceptron behind it."""

    def __init__(self, c):
        super().__init__()
        self.norm, self.qkv, self.out = norm(c), nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.mlp = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))

    def forward(self, x):
        n, c, high, wide = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = (a.reshape(n, high * wide, 8, c // 8).transpose(1, 2) for a in self.qkv(y).chunk(3, -1))
        y = self.out(attention(q, k, v).transpose(1, 2).reshape(n, high * wide, c))
        y = y + self.mlp(y)
        return x + y.transpose(1, 2).reshape(n, c, high, wide)


class DiffusionUNet(nn.Module):
    """320, 640, 1280, 1280 channels; two residual blocks a level on the way down, three on the way up."""

    def __init__(self, width=320):
        super().__init__()
        levels, kept, c = (width, 2 * width, 4 * width, 4 * width), [width], width
        self.begin = nn.Conv2d(4, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for i, k in enumerate(levels):
            for _ in range(2):
                self.down.append(nn.ModuleList([Residual(c, k), Attention(k) if i < 3 else nn.Identity()]))
                kept.append(k)
                c = k
            if i < 3:
                self.down.append(nn.ModuleList([nn.Conv2d(c, c, 3, 2, 1)]))
                kept.append(c)
        self.middle = nn.ModuleList([Residual(c, c), Attention(c), Residual(c, c)])
        for i, k in reversed(list(enumerate(levels))):
            for j in range(3):
                more = [nn.Conv2d(k, k, 3, padding=1)] if j == 2 and i > 0 else []
                self.up.append(nn.ModuleList([Residual(c + kept.pop(), k), Attention(k) if i < 3 else nn.Identity()]
                                             + more))
                c = k
        self.end = nn.Sequential(norm(c), nn.SiLU(), nn.Conv2d(c, 4, 3, padding=1))

    def forward(self, x, t):
        x = self.begin(x)
        kept = [x]
        for block in self.down:
            x = block[1](block[0](x, t)) if len(block) > 1 else block[0](x)
            kept.append(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, t)), t)
        for block in self.up:
            x = block[1](block[0](torch.cat([x, kept.pop()], 1), t))
            if len(block) > 2:
                x = block[2](F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.end(x)


def pair3d(c, k, stride):
    """Two 3x3x3 convolutions, each with instance norm (a group norm of one channel a group) and leaky ReLU."""
    layers = []
    for a, s in ((c, stride), (k, 1)):
        layers += [nn.Conv3d(a, k, 3, s, 1), nn.GroupNorm(k, k), nn.LeakyReLU(.01)]
    return nn.Sequential(*layers)


class UNet3D(nn.Module):
    def __init__(self, levels=(32, 64, 128, 256, 320)):
        super().__init__()
        before = (1,) + levels[:-1]
        self.down = nn.ModuleList(pair3d(c, k, 1 if i == 0 else 2) for i, (c, k) in enumerate(zip(before, levels)))
        self.wider = nn.ModuleList(nn.ConvTranspose3d(k, c, 2, 2) for c, k in zip(levels[:-1], levels[1:]))
        self.up = nn.ModuleList(pair3d(2 * c, c, 1) for c in levels[:-1])
        self.end = nn.Conv3d(levels[0], 4, 1)

    def forward(self, x):
        kept = []
        for level in self.down:
            x = level(x)
            kept.append(x)
        kept.pop()
        for i in reversed(range(len(self.up))):
            x = self.up[i](torch.cat([self.wider[i](x), kept.pop()], 1))
        return self.end(x)


def classifier(build, batch, shape, classes):
    """A model of torchvision, and its data: pictures or films, and labels."""
    def make(o):
        model = build()
        inputs = torch.randn(o.batch or batch, *[o.size if o.size and i > len(shape) - 3 else s
                                                 for i, s in enumerate(shape)])
        labels = torch.randint(0, classes, (inputs.shape[0],))
        return model, [inputs], labels, lambda y, want: F.cross_entropy(y.float(), want)
    return make


def diffusion(o):
    n, size = o.batch or 4, o.size or 64
    data = [torch.randn(n, 4, size, size), torch.randn(n, 1280)]
    return DiffusionUNet(), data, torch.randn(n, 4, size, size), lambda y, want: F.mse_loss(y.float(), want.float())


def segmentation(o):
    n, size = o.batch or 2, o.size or 96
    labels = torch.randint(0, 4, (n, size, size, size))
    return UNet3D(), [torch.randn(n, 1, size, size, size)], labels, lambda y, want: F.cross_entropy(y.float(), want)


def models():
    found = {"sd_unet": diffusion, "unet3d": segmentation}
    try:
        import torchvision.models as vision
    except ImportError:
        print("skipped: torchvision not found: resnet50, convnext_tiny, efficientnet_b0, r3d_18")
        return found
    picture = (3, 224, 224)
    found["resnet50"] = classifier(vision.resnet50, 64, picture, 1000)
    found["convnext_tiny"] = classifier(vision.convnext_tiny, 32, picture, 1000)
    found["efficientnet_b0"] = classifier(vision.efficientnet_b0, 64, picture, 1000)
    found["r3d_18"] = classifier(vision.video.r3d_18, 8, (3, 16, 112, 112), 400)
    return found


def placed(t, o):
    t = t.to(o.device)
    if t.is_floating_point():
        t = t.to(DTYPES[o.dtype])
    if o.layout == "last" and t.dim() in (4, 5):
        t = t.contiguous(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)
    return t


class Side:
    """A model, its data and a step on them, on one side."""

    def __init__(self, make, o, context):
        torch.manual_seed(1)
        model, inputs, labels, loss = make(o)
        self.o, self.context, self.graph = o, context, None
        self.model = model.to(o.device, DTYPES[o.dtype])
        if o.layout == "last":
            for p in self.model.parameters():
                p.data = placed(p.data, o)
        self.inputs, self.labels, self.loss = [placed(x, o) for x in inputs], placed(labels, o), loss
        self.update = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=.9)
        with context():
            self.first = float(self.step(2))
            if o.device == "cuda" and not o.eager:
                self.capture()

    def step(self, seed=None):
        if seed is not None:  # the same dropout on both sides; a graph takes none
            torch.manual_seed(seed)
        self.update.zero_grad(set_to_none=self.o.device != "cuda")
        loss = self.loss(self.model(*self.inputs), self.labels)
        loss.backward()
        self.update.step()
        return loss.detach()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.last = self.step()

    def seconds(self):
        cuda = self.o.device == "cuda"
        if cuda:
            torch.cuda.synchronize()
        began = time.perf_counter()
        if self.graph:
            self.graph.replay()
        else:
            with self.context():
                self.last = self.step()
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - began


def differ(a, b, share):
    return not abs(a - b) <= share * abs(a)


def median(values):
    return sorted(values)[len(values) // 2]


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    p.add_argument("--models", default="")
    p.add_argument("--layout", default="last", choices=["last", "first"])
    p.add_argument("--dtype", default="bf16", choices=list(DTYPES))
    p.add_argument("--steps", type=int, default=30, choices=range(1, 10001), metavar="1..10000")
    p.add_argument("--batch", type=int, default=0)
    p.add_argument("--size", type=int, default=0)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    p.add_argument("--eager", action="store_true")
    o = p.parse_args()
    torch.backends.cudnn.benchmark = True
    wrong = tried = 0
    for name, make in models().items():
        if not re.search(o.models, name):
            continue
        tried += 1
        theirs = Side(make, o, contextlib.nullcontext)
        ckconv_torch.reset_report()
        ours = Side(make, o, ckconv_torch.use)
        left = [line for line in str(ckconv_torch.report()).splitlines() if "by PyTorch" in line]
        times = [(theirs.seconds(), ours.seconds()) for _ in range(o.steps)][o.steps // 4:]
        a, b = median([t[0] for t in times]), median([t[1] for t in times])
        last = float(theirs.last), float(ours.last)
        differs = differ(theirs.first, ours.first, .05) or differ(last[0], last[1], .2)
        wrong += differs
        print("%-16s %8.2f ms %8.2f ms  %5.2f  loss %.4f %.4f, at the end %.4f %.4f%s%s" % (
            name, 1e3 * a, 1e3 * b, a / b, theirs.first, ours.first, last[0], last[1], "  DIFFERENT" if differs else "",
            "  left to PyTorch: " + "; ".join(left) if left else ""), flush=True)
        del theirs, ours
        if o.device == "cuda":
            torch.cuda.empty_cache()
    return 2 if not tried else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
