#!/usr/bin/env python3
"""ckconv beside PyTorch (cuDNN on NVIDIA, MIOpen on AMD): both in one process, alternating, on the rows of a case file.

usage: torch_peer.py [--lib build/libckconv.so] [--cases bench/cases.tsv] [--match REGEX] [--dtype f16,f32]
                     [--layout last|first] [--compile] [--rounds 3] [--rep 40] [--seconds 500] [--instances REGEX]

Build the library first:
    nvcc -x cu -std=c++17 -O3 -arch=sm_90a -shared -Xcompiler -fPIC -I. examples/ckconv_impl.c -o build/libckconv.so

Both sides get the same tensors of normal random numbers, channels last or (--layout first) NCHW and KCYX, and are
timed by triton's do_bench, which writes 256 MB before each run; a figure is the median of the rounds' medians. f32
is computed without reduced precision. The peer of a 1D problem is conv1d on NCL or conv2d with H = 1, channels
last, whichever is faster. Group norm's peer is PyTorch's own kernel; with --compile also what torch.compile makes
of the formulas, whichever is faster. Outputs are filled with NaN first and compared with the peer's.

TSV on stdout: name op dtype peer_us ckconv_us ratio (peer / ckconv) instance tflops error (largest difference / largest
value). Then geometric means, ratios capped at 4. Exit status 1 when a result was wrong.
SPDX-License-Identifier: MIT
"""
import argparse
import ctypes as ct
import math
import os
import re
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from ckconv_torch import Args, ConvDesc as Conv, ElementOp as Element, Error, GroupnormDesc as Norm  # noqa: E402
from ckconv_torch import Options, Plan, Tensor  # noqa: E402

I32, I64, F64 = ct.c_int32, ct.c_int64, ct.c_double
F32_, F16_ = 2, 3  # CKCONV_F32, CKCONV_F16
NGCHW, GKCYX = 3, 5  # CKCONV_NGCHW, CKCONV_GKCYX
OPS = {"fwd": 1, "bwd_data": 2, "bwd_weight": 3, "conv_conv_fwd": 4, "groupnorm_fwd": 5, "groupnorm_bwd": 6}
LIMIT = {"f16": 2e-2, "f32": 2e-4}


class Pair(ct.Structure):
    _fields_ = ([("conv0", Conv), ("g1", I64), ("k1", I64)] +
                [(n, I64 * 3) for n in ("filter1", "stride1", "dilation1", "pad_lo1", "pad_hi1")] +
                [("wei1", Tensor), ("out", Tensor), ("compute_wei1", I32), ("num_d", I32),
                 ("op_wei1", Element), ("op_out", Element), ("d", Tensor * 4)])


class Library:
    def __init__(self, path):
        self.c = ct.CDLL(path)
        self.c.ckconv_instance_name.restype = ct.c_char_p
        self.error = Error()

    def check(self, status):
        if status:
            raise RuntimeError(self.error.text.decode())

    def plan(self, op, desc, instance=None, engine=3, threads=0):
        """A plan for the current GPU, or engine 2 (the CPU), and a function that runs it."""
        plan, call = Plan(), self.c.ckconv_plan_conv
        options = ct.byref(Options(engine=engine, instance=instance, threads=threads))
        if op == "conv_conv_fwd":
            status = self.c.ckconv_plan_conv_conv(ct.byref(plan), ct.byref(desc), options, None, ct.byref(self.error))
        else:
            call = self.c.ckconv_plan_groupnorm if op.startswith("group") else call
            status = call(ct.byref(plan), OPS[op], ct.byref(desc), options, None, ct.byref(self.error))
        self.check(status)
        if plan.op != OPS[op] or plan.engine != engine:
            raise RuntimeError("the plan is for another engine")
        device = "cuda" if engine == 3 else "cpu"
        workspace = torch.empty(plan.workspace_bytes + 1, dtype=torch.uint8, device=device)
        stream = ct.c_void_p(torch.cuda.current_stream().cuda_stream) if engine == 3 else None

        def run(args):
            self.check(self.c.ckconv_run(ct.byref(plan), ct.byref(args), ct.c_void_p(workspace.data_ptr()),
                                         ct.c_size_t(plan.workspace_bytes), stream, ct.byref(self.error)))
        return plan, run


def numbers(text):
    return [int(v) for v in text.split(",")]


def fill(array, values):
    for i, v in enumerate(values):
        array[i] = v


class Row:
    def __init__(self, line):
        c = line.rstrip("\n").split("\t")
        self.name, self.op, self.note = c[0], c[1], c[12] if len(c) > 12 else ""
        self.ndim, self.g, self.n = int(c[2]), int(c[3]), int(c[4])
        self.c, self.input = int(c[6]), numbers(c[8])
        if self.op != "groupnorm":
            self.k, self.filter = int(c[5]), numbers(c[7])
            self.stride, self.dilation, self.pad = numbers(c[9]), numbers(c[10]), numbers(c[11])

    def dense(self):
        return self.g == 1 and self.c > 3 and self.ndim > 1 or self.name.startswith("conv1d_dense")

    def kind(self):
        if self.op != "conv":
            return self.op
        return "dense" if self.dense() else "depthwise" if self.c == 1 else "stem" if self.c == 3 else \
            "1D" if self.ndim == 1 else "grouped"


def conv_desc(row, dtype, first):
    d = Conv(ndim=row.ndim, g=row.g, n=row.n, k=row.k, c=row.c)
    if first:
        d.in_.layout = d.out.layout = NGCHW
        d.wei.layout = GKCYX
    for name in ("filter", "input", "stride", "dilation"):
        fill(getattr(d, name), getattr(row, name))
    fill(d.pad_lo, row.pad)
    fill(d.pad_hi, row.pad)
    d.in_.dtype = dtype
    return d


class Case:
    """One problem on both sides: ops() yields (op, peers, ours, results)."""

    def __init__(self, lib, row, dtype, first, compiled):
        self.lib, self.row, self.first, self.compiled = lib, row, first, compiled
        self.torch_type = torch.float16 if dtype == "f16" else torch.float32
        self.code = F16_ if dtype == "f16" else F32_
        self.dims = max(row.ndim, 2)
        self.format = torch.contiguous_format if first else \
            torch.channels_last if self.dims == 2 else torch.channels_last_3d
        self.one = [1] * (self.dims - row.ndim)

    def random(self, shape, scale=1.0):
        x = torch.randn(shape, device="cuda", dtype=self.torch_type) * scale
        return x.contiguous(memory_format=self.format) if len(shape) == self.dims + 2 else x

    def blank(self, like):
        return torch.full_like(like, float("nan"))

    def ours(self, op, desc, **tensors):
        plan, run = self.lib.plan(op, desc)
        args = Args(**{k: v.data_ptr() for k, v in tensors.items()})
        self.again = op, desc, args
        return plan, lambda: run(args)

    def others(self, match):
        """Instances whose name matches and that fit the last problem: (name, run)."""
        op, desc, args = self.again
        for i in range(self.lib.c.ckconv_instance_count()):
            name = self.lib.c.ckconv_instance_name(i)
            if re.search(match, name.decode()):
                try:
                    plan, run = self.lib.plan(op, desc, name)
                except RuntimeError:
                    continue
                yield name.decode(), lambda: run(args)

    def conv(self):
        r, one = self.row, self.one
        st, dl, pad, fl = one + r.stride, one + r.dilation, [0] * len(one) + r.pad, one + r.filter
        conv = {2: F.conv2d, 3: F.conv3d}[self.dims]
        x, w = self.random([r.n, r.g * r.c] + one + r.input), self.random([r.g * r.k, r.c] + fl, 0.1)
        y = conv(x, w, None, st, pad, dl, r.g)
        return x, w, y, lambda: conv(x, w, None, st, pad, dl, r.g), (st, pad, dl)

    def conv_ops(self):
        r = self.row
        x, w, y, forward, (st, pad, dl) = self.conv()
        dy = self.random(list(y.shape))
        back = torch.ops.aten.convolution_backward
        zeros = [0] * self.dims
        peers = {
            "fwd": [forward],
            "bwd_data": [lambda: back(dy, x, w, None, st, pad, dl, False, zeros, r.g, [True, False, False])[0]],
            "bwd_weight": [lambda: back(dy, x, w, None, st, pad, dl, False, zeros, r.g, [False, True, False])[1]]}
        if r.ndim == 1:
            x1, w1, dy1 = (t.squeeze(2).contiguous() for t in (x, w, dy))
            s = (r.stride, r.pad, r.dilation)
            peers["fwd"].append(lambda: F.conv1d(x1, w1, None, *s, r.g))
            peers["bwd_data"].append(lambda: back(dy1, x1, w1, None, *s, False, [0], r.g, [True, False, False])[0])
            peers["bwd_weight"].append(lambda: back(dy1, x1, w1, None, *s, False, [0], r.g, [False, True, False])[1])
        desc = conv_desc(r, self.code, self.first)
        for op, tensors, like in (("fwd", {"in_": x, "wei": w}, y), ("bwd_data", {"dout": dy, "wei": w}, x),
                                  ("bwd_weight", {"in_": x, "dout": dy}, w)):
            result = self.blank(like)
            name = {"fwd": "out", "bwd_data": "din", "bwd_weight": "dwei"}[op]
            plan, run = self.ours(op, desc, **tensors, **{name: result})
            yield op, peers[op], plan, run, [(result, peers[op][0]())]

    def pair_ops(self):
        r = self.row
        x, w, y, forward, _ = self.conv()
        conv = {2: F.conv2d, 3: F.conv3d}[self.dims]
        k1 = int(re.search(r"K1=(\d+)", r.note).group(1))
        w1 = self.random([k1, r.g * r.k] + [1] * self.dims, 0.1)
        desc = Pair(conv0=conv_desc(r, self.code, self.first), k1=k1)
        desc.out.layout = NGCHW if self.first else 0
        want = conv(y, w1)
        result = self.blank(want)
        plan, run = self.ours("conv_conv_fwd", desc, in_=x, wei=w, wei1=w1, out=result)
        yield "conv_conv_fwd", [lambda: conv(forward(), w1)], plan, run, [(result, want)]

    def norm_ops(self):
        r = self.row
        x = self.random([r.n, r.g * r.c] + self.one + r.input)
        dy, gamma, beta = self.random(list(x.shape)), self.random([r.g * r.c]), self.random([r.g * r.c])
        space = math.prod(r.input)
        desc = Norm(ndim=r.ndim, g=r.g, n=r.n, c=r.c, eps=1e-5)
        fill(desc.input, r.input)
        desc.in_.dtype = self.code
        desc.in_.layout = NGCHW if self.first else 0
        plain = x.contiguous()
        _, mean, rstd = torch.ops.aten.native_group_norm(plain, gamma, beta, r.n, r.g * r.c, space, r.g, 1e-5)
        mean32, rstd32 = mean.float(), rstd.float()
        forward = lambda: F.group_norm(x, r.g, gamma, beta, 1e-5)
        back = lambda: torch.ops.aten.native_group_norm_backward(
            dy.contiguous(), x.contiguous(), mean, rstd, gamma, r.n, r.g * r.c, space, r.g, [True] * 3)
        forwards, backs = [forward], [back]
        if self.compiled:
            size = [r.n, r.g, r.c, space]
            wide = lambda t: t.view([1, r.g, r.c, 1])

            def formula(x, gamma, beta):
                xs = x.reshape(size).float()
                v, m = torch.var_mean(xs, (2, 3), keepdim=True, correction=0)
                return ((xs - m) * torch.rsqrt(v + 1e-5) * wide(gamma) + wide(beta)).to(x.dtype).reshape(x.shape)

            def gradients(dy, x, gamma, mean, rstd):
                xs, d = x.reshape(size).float(), dy.reshape(size).float()
                r1, m1 = rstd.view([r.n, r.g, 1, 1]), mean.view([r.n, r.g, 1, 1])
                sx, s1 = (d * (xs - m1) * r1).sum(3, keepdim=True), d.sum(3, keepdim=True)
                a = (wide(gamma) * sx).sum(2, keepdim=True) / (r.c * space)
                b = (wide(gamma) * s1).sum(2, keepdim=True) / (r.c * space)
                dx = r1 * (d * wide(gamma) - b - (xs - m1) * r1 * a)
                return dx.to(x.dtype).reshape(x.shape), sx.sum(0).flatten().to(x.dtype), s1.sum(0).flatten().to(x.dtype)

            torch._dynamo.reset()  # else shapes turn dynamic after a few rows
            fast = torch.compile(formula, dynamic=False)
            fast_back = torch.compile(gradients, dynamic=False)
            forwards.append(lambda: fast(x, gamma, beta))
            backs.append(lambda: fast_back(dy, x, gamma, mean32, rstd32))
        y, dx, dg, db = self.blank(x), self.blank(x), self.blank(gamma), self.blank(gamma)
        plan, run = self.ours("groupnorm_fwd", desc, in_=x, gamma=gamma, beta=beta, out=y)
        yield "groupnorm_fwd", forwards, plan, run, [(y, forward())]
        plan, run = self.ours("groupnorm_bwd", desc, in_=x, dout=dy, gamma=gamma, saved_mean=mean32,
                              saved_inv_std=rstd32, din=dx, dgamma=dg, dbeta=db)
        yield "groupnorm_bwd", backs, plan, run, list(zip((dx, dg, db), back()))

    def ops(self):
        return {"conv": self.conv_ops, "conv_conv": self.pair_ops, "groupnorm": self.norm_ops}[self.row.op]()


def largest_error(pairs):
    worst = 0.0
    for got, want in pairs:
        want = want.float()
        error = (got.float() - want).abs().max() / want.abs().max().clamp_min(1e-30)
        worst = max(worst, float("inf") if torch.isnan(error) else float(error))
    return worst


def measure(functions, rounds, rep):
    """Medians of the rounds, the functions taking turns."""
    from triton.testing import do_bench
    times = [[] for _ in functions]
    for _ in range(rounds):
        for i, f in enumerate(functions):
            times[i].append(do_bench(f, warmup=5, rep=rep, return_mode="median") * 1e3)
    return [sorted(t)[len(t) // 2] for t in times]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib", default="build/libckconv.so")
    p.add_argument("--cases", default="bench/cases.tsv")
    p.add_argument("--match", default="")
    p.add_argument("--dtype", default="f16,f32")
    p.add_argument("--layout", choices=("last", "first"), default="last")
    p.add_argument("--compile", action="store_true", help="group norm: torch.compile's kernels are peers too")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--rep", type=int, default=40)
    p.add_argument("--seconds", type=float, default=500)
    p.add_argument("--instances", default="", help="REGEX: time these instances too, in comment lines")
    o = p.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    lib, began, entries, wrong = Library(o.lib), time.time(), [], 0
    print("# channels", o.layout, torch.cuda.get_device_name(), "torch", torch.__version__, "cudnn",
          torch.backends.cudnn.version())
    print("name\top\tdtype\tpeer_us\tckconv_us\tratio\tinstance\ttflops\terror")
    rows = [Row(line) for line in open(o.cases) if line.strip() and not line.startswith("#")]
    for row in rows:
        if not re.search(o.match, row.name):
            continue
        for dtype in o.dtype.split(","):
            if time.time() - began > o.seconds:
                print("# left out:", row.name, dtype)
                continue
            case = Case(lib, row, dtype, o.layout == "first", o.compile)
            for op, peers, plan, run, results in case.ops():
                run()
                torch.cuda.synchronize()
                error = largest_error(results)
                *peer, own = measure(peers + [run], o.rounds, o.rep)
                peer = min(peer)
                verdict = "" if error <= LIMIT[dtype] else "\tMISMATCH"
                wrong += verdict != ""
                entries.append((peer / own, row, op, dtype))
                print(f"{row.name}\t{op}\t{dtype}\t{peer:.1f}\t{own:.1f}\t{peer / own:.3f}\t"
                      f"{lib.c.ckconv_instance_name(plan.instance).decode()}\t{plan.flop / own / 1e6:.2f}\t"
                      f"{error:.1e}{verdict}", flush=True)
                for name, other in case.others(o.instances) if o.instances else ():
                    results[0][0].fill_(float("nan"))
                    other()
                    error = largest_error(results)
                    verdict = "" if error <= LIMIT[dtype] else "\tMISMATCH"
                    wrong += verdict != ""
                    print(f"#  {name}\t{measure([other], 1, o.rep)[0]:.1f}\t{error:.1e}{verdict}", flush=True)
    groups = {}
    for ratio, row, op, dtype in entries:
        for key in (f"{dtype} {row.kind()}", f"{dtype} all", f"{dtype} {op}"):
            groups.setdefault(key, []).append(math.log(min(ratio, 4.0)))
    for key in sorted(groups):
        print(f"# {key}: {math.exp(sum(groups[key]) / len(groups[key])):.3f} over {len(groups[key])}")
    for ratio, row, op, dtype in sorted(entries, key=lambda e: e[0])[:5]:
        print(f"# worst: {row.name} {op} {dtype} {ratio:.3f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
