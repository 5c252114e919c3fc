#!/usr/bin/env python3
"""ResNet-50 with group norm on synthetic images: PyTorch's own kernels, then the same steps with ckconv.

usage: train_resnet50.py [--batch 64] [--steps 20] [--size 224] [--dtype bf16|f16|f32] [--layout last|first]
                         [--device cuda|cpu] [--graph] [--width 64]

Run `make python` first (GPU=cuda or GPU=hip for a GPU that is not in the machine that builds). Both runs begin with
the same weights and see the same images, so their losses differ by rounding alone. --graph: a step (forward,
backward, update) is captured once and replayed, which leaves out what Python and launches cost. A line per run:
images per second (the median of the steps) and the loss of the first and the last step.
SPDX-License-Identifier: MIT
"""
import argparse
import contextlib
import os
import sys
import time

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import ckconv_torch  # noqa: E402


def conv(c, k, size, stride=1):
    return nn.Conv2d(c, k, size, stride, size // 2, bias=False)


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1, each with group norm; four times as many channels at its end."""

    def __init__(self, c, k, stride):
        super().__init__()
        self.body = nn.Sequential(conv(c, k, 1), nn.GroupNorm(32, k), nn.ReLU(),
                                  conv(k, k, 3, stride), nn.GroupNorm(32, k), nn.ReLU(),
                                  conv(k, 4 * k, 1), nn.GroupNorm(32, 4 * k))
        self.side = nn.Sequential() if c == 4 * k else nn.Sequential(conv(c, 4 * k, 1, stride), nn.GroupNorm(32, 4 * k))

    def forward(self, x):
        return torch.relu(self.body(x) + self.side(x))


def resnet50(width, classes=1000):
    layers, c = [conv(3, width, 7, 2), nn.GroupNorm(32, width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            k = width << stage
            layers.append(Bottleneck(c, k, 2 if stage > 0 and block == 0 else 1))
            c = 4 * k
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, classes))


def train(o, images, labels, dtype):
    """Seconds of each step, and the losses."""
    torch.manual_seed(1)
    model = resnet50(o.width).to(o.device, dtype)
    if o.layout == "last":
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=.01, momentum=.9)
    cuda = o.device == "cuda"

    def step():
        optimizer.zero_grad(set_to_none=not o.graph)
        loss = nn.functional.cross_entropy(model(images).float(), labels)
        loss.backward()
        optimizer.step()
        return loss

    graph, held = None, None
    losses, times = [], []
    if o.graph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                losses.append(step().detach())
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            held = step()
    for _ in range(o.steps):
        if cuda:
            torch.cuda.synchronize()
        began = time.perf_counter()
        if graph:
            graph.replay()
            loss = held
        else:
            loss = step()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
        losses.append(loss.detach().clone())
        if sys.stderr.isatty():
            print("\r  step %d of %d, loss %.4f" % (len(times), o.steps, losses[-1]), end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return times, [float(v) for v in losses]


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--dtype", default="bf16", choices=["bf16", "f16", "f32"])
    p.add_argument("--layout", default="last", choices=["last", "first"])
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    p.add_argument("--graph", action="store_true")
    o = p.parse_args()
    torch.backends.cudnn.benchmark = True
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[o.dtype]
    torch.manual_seed(0)
    images = torch.randn(o.batch, 3, o.size, o.size, device=o.device).to(dtype)
    if o.layout == "last":
        images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (o.batch,), device=o.device)
    rates = []
    for name, context in (("PyTorch", contextlib.nullcontext), ("ckconv", ckconv_torch.use)):
        with context():
            times, losses = train(o, images, labels, dtype)
        rates.append(o.batch / sorted(times[len(times) // 4:])[len(times[len(times) // 4:]) // 2])
        print("%-8s %8.1f images/s, loss %.4f to %.4f" % (name, rates[-1], losses[0], losses[-1]), flush=True)
    print("ckconv / PyTorch: %.2f (%s, channels %s, batch %d%s)" % (
        rates[1] / rates[0], o.dtype, o.layout, o.batch, ", graph" if o.graph else ""))


if __name__ == "__main__":
    main()
