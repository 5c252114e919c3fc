#!/usr/bin/env python3
"""Every layer of real networks: ckconv beside PyTorch's own calls (cuDNN, MIOpen, oneDNN), one process, alternating.

usage: nets.py [--lib build/libckconv.so] [--table bench/nets.tsv] [--nets REGEX] [--dtype bf16|f16|f32]
               [--layout last|first] [--ops LIST] [--no-bias] [--rep MS] [--seconds S] [--worst N] [--out FILE.tsv]
               [--engine gpu|cpu] [--batch N] [--cudnn N]
       nets.py --picture FILE.svg NAME=FILE.tsv ...

A row of the table is a layer: net count op ndim g n k c filter input stride dilation pad bias grad_in, k and c per
group. A layer whose network has a bias runs with it on both sides: PyTorch's own call, ckconv's CKCONV_BIAS
epilogue. Both get the same tensors of normal random numbers, channels last (1D: conv2d with H = 1) or (--layout
first) NCL, NCHW, NCDHW and KCYX; results are filled with NaN before and compared. Where PyTorch could read a
tensor's strides as either order (one channel, one pixel), the faster reading counts. GPU times are medians of
triton's do_bench, which writes 256 MB before each run. --cudnn: how many algorithms cuDNN times per layer, PyTorch's
default 10; 0 all. --engine cpu: host tensors, as many threads on both sides; --batch cuts each batch.

stdout: per network the sums over its layers of count x time (bwd_data where grad_in is 1), PyTorch's / ckconv's, the
same by pass, group norm apart, lost time (the sum of count x max(0, ours - PyTorch's) over PyTorch's) and entries
below 1, .8 and .5; then geometric means. A network with layers left out (--seconds), refused or different has no
figure. --out: each entry as TSV: the row, PyTorch's us, ckconv's us, their ratio, the instance. --picture: of such
files, one bar per network and file. Exit status 1 when a result was wrong.
SPDX-License-Identifier: MIT
"""
import argparse
import math
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PASSES = ("fwd", "bwd_data", "bwd_weight")
NORMS = ("groupnorm_fwd", "groupnorm_bwd")
LIMIT = {"f16": 2e-2, "bf16": 6e-2, "f32": 2e-4}
CODE = {"f32": 2, "f16": 3, "bf16": 4}
BIAS, CHANNEL = 18, 6  # CKCONV_BIAS, CKCONV_CHANNEL


def arguments():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    p.add_argument("files", nargs="*")
    p.add_argument("--picture")
    p.add_argument("--lib", default=os.path.join(HERE, "..", "build", "libckconv.so"))
    p.add_argument("--table", default=os.path.join(HERE, "nets.tsv"))
    p.add_argument("--nets", default="")
    p.add_argument("--dtype", default="bf16", choices=list(CODE))
    p.add_argument("--layout", default="last", choices=["last", "first"])
    p.add_argument("--ops", default=",".join(PASSES + NORMS))
    p.add_argument("--no-bias", action="store_true")
    p.add_argument("--rep", type=int, default=15)
    p.add_argument("--seconds", type=float, default=1e9)
    p.add_argument("--worst", type=int, default=8)
    p.add_argument("--out")
    p.add_argument("--engine", default="gpu", choices=["gpu", "cpu"])
    p.add_argument("--batch", type=int, default=0)
    p.add_argument("--cudnn", type=int, default=10)
    return p.parse_args()


def read(path):
    """Rows of a TSV with a head, as dictionaries."""
    lines = [line.rstrip("\n").split("\t") for line in open(path) if not line.startswith("#")]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def numbers(text):
    return [] if text == "-" else [int(v) for v in text.split(",")]


def mean(ratios):
    """Geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))


class Bench:
    """The peers and how they are timed."""

    def __init__(self, o):
        import torch
        sys.path.insert(0, HERE)
        import torch_peer
        self.o, self.torch, self.peer = o, torch, torch_peer
        self.cpu, self.first = o.engine == "cpu", o.layout == "first"
        self.device = "cpu" if self.cpu else "cuda"
        self.type = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[o.dtype]
        self.lib = torch_peer.Library(o.lib)
        self.wrong = 0
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.benchmark_limit = o.cudnn
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False

    def title(self):
        name = "%d CPU threads" % self.torch.get_num_threads() if self.cpu else self.torch.cuda.get_device_name()
        return "# %s, torch %s, cudnn %s, %s, channels %s, %s" % (
            name, self.torch.__version__, self.torch.backends.cudnn.version(), self.o.dtype, self.o.layout,
            "no bias" if self.o.no_bias else "biases as the networks have them")

    def random(self, shape):
        return self.order(self.torch.randn(shape, device=self.device, dtype=self.type))

    def order(self, t):
        """t in its memory order with strides that say so, though there be one channel or one pixel."""
        if self.first or t.dim() < 4:
            return t.contiguous()
        fmt = self.torch.channels_last if t.dim() == 4 else self.torch.channels_last_3d
        return self.torch.empty(t.shape, dtype=t.dtype, device=t.device, memory_format=fmt).copy_(t)

    def plain(self, t):
        return self.torch.empty(t.shape, dtype=t.dtype, device=t.device).copy_(t)

    def time(self, call):
        """Microseconds, a median."""
        if not self.cpu:
            from triton.testing import do_bench
            return do_bench(call, warmup=3, rep=self.o.rep, return_mode="median") * 1e3
        times, end = [], time.perf_counter() + self.o.rep / 1e3
        while len(times) < 3 or time.perf_counter() < end:
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return sorted(times)[len(times) // 2] * 1e6

    def compare(self, op, desc, tensors, result, want, calls):
        """(PyTorch's us, ckconv's us, instance) of one entry. result: the tensor that ckconv writes."""
        threads = self.torch.get_num_threads() if self.cpu else 0
        plan, run = self.lib.plan(op, desc, engine=2 if self.cpu else 3, threads=threads)
        args = self.peer.Args(**{name: t.data_ptr() for name, t in tensors.items() if t is not None})

        def ours():
            run(args)

        result.fill_(float("nan"))
        ours()
        bad = not self.peer.largest_error([(result, want)]) <= LIMIT[self.o.dtype]
        self.wrong += bad
        peer = us = math.inf
        for _ in range(2):
            peer = min([peer] + [self.time(call) for call in calls])
            us = min(us, self.time(ours))
        name = self.lib.c.ckconv_instance_name(plan.instance).decode()
        return peer, us, name + (" MISMATCH" if bad else "")

    def conv(self, row):
        F, back = self.torch.nn.functional, self.torch.ops.aten.convolution_backward
        ndim, g, n, k, c = (int(row[x]) for x in ("ndim", "g", "n", "k", "c"))
        axes = {x: numbers(row[x]) for x in ("filter", "input", "stride", "dilation", "pad")}
        one = [1] if ndim == 1 and not self.first else []  # conv1d as conv2d with H = 1
        filter, input, stride, dilation = (one + axes[x] for x in ("filter", "input", "stride", "dilation"))
        pad = [0] * len(one) + axes["pad"]
        call = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(input)]
        x, w = self.random([n, g * c] + input), self.random([g * k, c] + filter).mul_(.1)
        b = None
        if row["bias"] == "1" and not self.o.no_bias:
            b = self.torch.randn(g * k, device=self.device, dtype=self.type)
        y = self.order(call(x, w, b, stride, pad, dilation, g))
        dy = self.order(self.torch.randn_like(y))

        def desc(op):
            d = self.peer.Conv(ndim=ndim, g=g, n=n, k=k, c=c)
            for name, axis in (("filter", "filter"), ("input", "input"), ("stride", "stride"),
                               ("dilation", "dilation"), ("pad_lo", "pad"), ("pad_hi", "pad")):
                self.peer.fill(getattr(d, name), axes[axis])
            d.in_.dtype = CODE[self.o.dtype]
            if self.first:
                d.in_.layout = d.out.layout = self.peer.NGCHW
                d.wei.layout = self.peer.GKCYX
            if op == "fwd" and b is not None:
                d.op_out.kind, d.num_d, d.d[0].layout = BIAS, 1, CHANNEL
            return d

        def gradient(dy, x, w, which):
            mask = [which == 0, which == 1, False]
            return back(dy, x, w, None, stride, pad, dilation, False, [0] * len(input), g, mask)[which]

        peers = {"fwd": lambda x, w, dy: call(x, w, b, stride, pad, dilation, g),
                 "bwd_data": lambda x, w, dy: gradient(dy, x, w, 0),
                 "bwd_weight": lambda x, w, dy: gradient(dy, x, w, 1)}
        sets = [(x, w, dy)]
        if not self.first and any(t.dim() > 3 and t.is_contiguous() for t in sets[0]):
            sets.append(tuple(self.plain(t) for t in sets[0]))
        out = {}
        for op, peer in peers.items():
            if op not in self.o.ops.split(",") or (op == "bwd_data" and row["grad_in"] == "0"):
                continue
            want = y if op == "fwd" else peer(x, w, dy)
            result = self.torch.empty_like({"fwd": y, "bwd_data": x, "bwd_weight": w}[op])
            tensors = {"fwd": {"in_": x, "wei": w, "d0": b, "out": result},
                       "bwd_data": {"wei": w, "dout": dy, "din": result},
                       "bwd_weight": {"in_": x, "dout": dy, "dwei": result}}[op]
            calls = [lambda s=s: peer(*s) for s in sets]
            out[op] = self.compare(op, desc(op), tensors, result, want, calls)
        return out

    def norm(self, row):
        torch = self.torch
        ndim, g, n, c = (int(row[x]) for x in ("ndim", "g", "n", "c"))
        input = numbers(row["input"])
        space, eps = math.prod(input), 1e-5
        x = self.random([n, g * c] + ([1] if ndim == 1 and not self.first else []) + input)
        dy = self.order(torch.randn_like(x))
        gamma, beta = (torch.randn(g * c, device=self.device, dtype=self.type) for _ in range(2))
        d = self.peer.Norm(ndim=ndim, g=g, n=n, c=c, eps=eps)
        self.peer.fill(d.input, input)
        d.in_.dtype = CODE[self.o.dtype]
        d.in_.layout = self.peer.NGCHW if self.first else 0
        _, saved_mean, saved_inv = torch.ops.aten.native_group_norm(x.contiguous(), gamma, beta, n, g * c, space, g, eps)

        def backward():  # CUDA's kernels take NCHW alone, and 1.13's CPU one reads channels last of H = 1 wrongly
            return torch.ops.aten.native_group_norm_backward(dy.contiguous(), x.contiguous(), saved_mean, saved_inv, gamma,
                                                             n, g * c, space, g, [True] * 3)

        def forward():
            return torch.nn.functional.group_norm(x, g, gamma, beta, eps)

        out, y, dx = {}, torch.empty_like(x), torch.empty_like(x)
        fwd = {"in_": x, "gamma": gamma, "beta": beta, "out": y}
        bwd = {"in_": x, "dout": dy, "gamma": gamma, "saved_mean": saved_mean.float(),
               "saved_inv_std": saved_inv.float(), "din": dx, "dgamma": torch.empty_like(gamma),
               "dbeta": torch.empty_like(beta)}
        if NORMS[0] in self.o.ops:
            out[NORMS[0]] = self.compare(NORMS[0], d, fwd, y, forward(), [forward])
        if NORMS[1] in self.o.ops:
            out[NORMS[1]] = self.compare(NORMS[1], d, bwd, dx, backward()[0], [backward])
        return out


def network(entries):
    """Figures of a network's entries, (count, op, peer's us, ours): sums by pass, and what is lost."""
    sums = {}
    for count, op, peer, us in entries:
        for key in (op, "conv" if op in PASSES else "norm", "all"):
            a = sums.setdefault(key, [0, 0, 0])
            for i, v in enumerate((peer, us, max(0, us - peer))):
                a[i] += count * v
    return sums


def ratio(sums, key):
    return "%.2f" % (sums[key][0] / sums[key][1]) if key in sums else "-"


def report(nets, partial, worst):
    whole, unique, lost, peers = [], {}, 0, 0
    print("net\tPyTorch_us\tckconv_us\tratio\tfwd\tbwd_data\tbwd_weight\tgroup norm\tlost %\tbelow 1, .8, .5, of")
    for net, entries in nets.items():
        sums = network([e[:4] for e in entries])
        conv = sums.get("conv")
        if not conv:
            continue
        below = [sum(e[3] * limit > e[2] for e in entries) for limit in (1, .8, .5)]
        print(net, "%.0f" % conv[0], "%.0f" % conv[1], "%.3f" % (conv[0] / conv[1]), *[ratio(sums, p) for p in PASSES],
              ratio(sums, "norm"), "%.1f" % (100 * conv[2] / conv[0]), "%d %d %d of %d" % (*below, len(entries)),
              *(["no figure: layers are missing"] if net in partial else []), sep="\t")
        if net not in partial:
            whole.append(conv[0] / conv[1])
        if not net.endswith("_gn"):  # the same convolutions as without group norm
            lost, peers = lost + conv[2], peers + conv[0]
        for e in entries:
            unique[e[1:2] + e[5:]] = e
    for name, ops in (("all", PASSES + NORMS), ("convolutions", PASSES), ("group norms", NORMS)):
        r = [e[2] / e[3] for e in unique.values() if e[1] in ops]
        if r:
            print("# %s: %d different entries, geometric mean (each at most 4) %.3f, below 1: %d, .8: %d, .5: %d" % (
                name, len(r), mean([min(v, 4) for v in r]), *[sum(v < limit for v in r) for limit in (1, .8, .5)]))
    if whole:
        print("# networks: %d whole, geometric mean (each at most 2) %.3f, least %.3f; lost time %.1f %% of PyTorch's" % (
            len(whole), mean([min(v, 2) for v in whole]), min(whole), 100 * lost / peers))
    every = sorted(((e[0] * (e[3] - e[2]), net, e) for net, entries in nets.items() for e in entries), key=lambda v: -v[0])
    for loss, net, (count, op, peer, us, instance, key) in every[:worst]:
        if loss > 0:
            print("#  %5.0f us: %s %dx %s %s: PyTorch %.1f, ckconv %.1f, %s" % (loss, net, count, op, key, peer, us, instance))


def measure(o):
    bench, done, nets, partial, began = Bench(o), {}, {}, set(), time.time()
    sink = open(o.out, "w") if o.out else None
    print(bench.title(), flush=True)
    for row in read(o.table):
        if not re.search(o.nets, row["net"]):
            continue
        if o.batch:
            row["n"] = str(min(int(row["n"]), o.batch))
        key = tuple(v for name, v in row.items() if name not in ("net", "count"))
        if key not in done and time.time() - began > o.seconds:
            partial.add(row["net"])
            continue
        if key not in done:
            try:
                done[key] = bench.conv(row) if row["op"] == "conv" else bench.norm(row)
            except RuntimeError as e:
                print("# FAILED", row["net"], *key, str(e)[:200], flush=True)
                bench.wrong += 1
                done[key] = {}
                if "CUDA" in str(e):
                    raise
            if not bench.cpu:
                bench.torch.cuda.empty_cache()
        if not done[key] or any("MISMATCH" in v[2] for v in done[key].values()):
            partial.add(row["net"])
        for op, (peer, us, instance) in done[key].items():
            nets.setdefault(row["net"], []).append((int(row["count"]), op, peer, us, instance, " ".join(key)))
            if sink:
                print(row["net"], row["count"], op, *key[1:], "%.1f" % peer, "%.1f" % us, "%.3f" % (peer / us), instance,
                      sep="\t", file=sink, flush=True)
    report(nets, partial, o.worst)
    return 1 if bench.wrong else 0


def picture(path, files):
    """An SVG: for each network one bar per file, PyTorch's time / ckconv's over all its convolutions."""
    colours, series, names = ("#2a6f97", "#e07a1f", "#6a994e"), [], []
    for f in files:
        name, _, tsv = f.partition("=")
        nets = {}
        for line in open(tsv):
            v = line.rstrip("\n").split("\t")
            if v[2] in PASSES:
                nets.setdefault(v[0], []).append((int(v[1]), v[2], float(v[-4]), float(v[-3])))
        series.append((name, {net: network(e)["conv"] for net, e in nets.items()}))
        names += [net for net in nets if net not in names and not net.endswith("_gn")]
    first = series[0][1]
    names.sort(key=lambda net: -first[net][0] / first[net][1] if net in first else 0)
    most, left, wide, bar = 4, 190, 520, 11
    step = bar * len(series) + 9
    high = 60 + step * len(names)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">' % (
        left + wide + 60, high + 10), '<rect width="100%" height="100%" fill="white"/>']
    for i, (name, _) in enumerate(series):
        out.append('<rect x="%d" y="8" width="12" height="12" fill="%s"/><text x="%d" y="18">%s</text>' % (
            left + 200 * i, colours[i % 3], left + 200 * i + 18, name))
    for v in (.5, 1, 1.5, 2, 3, 4):
        x = left + wide * v / most
        out.append('<line x1="%.1f" y1="40" x2="%.1f" y2="%d" stroke="%s"/><text x="%.1f" y="36" text-anchor="middle">%g</text>' % (
            x, x, high, "#000" if v == 1 else "#ddd", x, v))
    for j, net in enumerate(names):
        y = 48 + step * j
        out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (left - 8, y + step / 2, net))
        for i, (_, nets) in enumerate(series):
            if net in nets:
                v = nets[net][0] / nets[net][1]
                at = left + wide * min(v, most) / most
                out.append('<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/><text x="%.1f" y="%d" font-size="10">%.2f</text>' % (
                    left, y + bar * i, at - left, bar - 1, colours[i % 3], at + 4, y + bar * i + 9, v))
    with open(path, "w") as f:
        f.write("\n".join(out + ["</svg>"]) + "\n")


def main():
    o = arguments()
    if o.picture:
        picture(o.picture, o.files)
        return 0
    return measure(o)


if __name__ == "__main__":
    sys.exit(main())
