#!/usr/bin/env python3
"""Runs PyTorch's golden problems with an AMD code object on an emulator of AMD's instructions.

    python3 amd_golden.py build/amd/gfx942.hsaco gfx942 build/ckconv tests/golden [OPTIONS]

    --every N         each Nth problem of an operation, of those each Nth combination of pass, type and layout
    --dtypes LIST     default f32,f16,bf16,f64,i8,f8e4m3; f8e5m2 is known too. i8 writes i32
    --layouts LIST    default NHWGC,NGCHW; the latter with weights in GKCYX
    --instances all   each problem on every GPU instance and option that fits, see below
    --match REGEX     only problems in whose name it is found
    --seconds X       no more cases after that time
    --reverse         waves and blocks in the opposite order, see amd_emulate.py
    --keep DIR        leave the dump and the files of the first failure there

Each problem runs as the planner chooses, and once more with an instance forced that fits or with an option
that changes the launches; until each had two problems of its type, with all of them. A convolution must equal
PyTorch's result after one rounding to the written type; conv_conv also, or the driver's ref engine where the
type does not hold PyTorch's mid. A group norm may be off by 1e-13 f64, 2e-6 f32, 2e-3 f16, 1.6e-2 bf16 of its
largest value. A few more problems are computed here, for the kernels that PyTorch's do not reach.

From the environment, as amd_emulate.py (beside this script or in tests below it): AMDEMU and TINYGRAD.
A line for each failure, then the counts, the kernels that ran, and in a note those that no launch reached.
Exit status 1: a difference.
SPDX-License-Identifier: MIT
"""
import ast
import collections
import contextlib
import io
import itertools
import math
import os
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PASSES = {"fwd": ("in", "wei", "out"), "bwd_data": ("wei", "dout", "din"),
          "bwd_weight": ("in", "dout", "dwei")}
NORMS = {"groupnorm_fwd": (("in", "gamma", "beta"), ("out", "mean", "inv_std")),
         "groupnorm_bwd": (("in", "dout", "gamma", "beta", "mean", "inv_std"), ("din", "dgamma", "dbeta"))}
# mantissa bits, least exponent, largest value, what a larger one becomes
FORMATS = {"f16": (10, -14, 65504.0, math.inf), "bf16": (7, -126, 2.0**128 - 2.0**120, math.inf),
           "f8e4m3": (3, -6, 448.0, 448.0), "f8e5m2": (2, -14, 57344.0, 57344.0)}
TOLERANCE = {"f64": 1e-13, "f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2}
TWICE = 2
NO_STATISTICS = "statistics computed again"
END_ALONE = 4  # bytes of a kernel that does nothing


def read_npy(path):
    """Shape and values of a .npy file: version 1, C order, little endian."""
    with open(path, "rb") as f:
        data = f.read()
    size, = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10:10 + size].decode())
    code = {"i1": "b", "i2": "h", "i4": "i", "f2": "e", "f4": "f", "f8": "d"}[header["descr"][1:]]
    if data[:7] != b"\x93NUMPY\x01" or header["fortran_order"] or header["descr"][0] == ">":
        raise ValueError("%s: not understood" % path)
    count = math.prod(header["shape"])
    return header["shape"], struct.unpack_from("<%d%s" % (count, code), data, 10 + size)


def round_to(dtype, values):
    """Rounded once, to nearest even; f64 and i32 hold all that there is."""
    if dtype == "f32":
        return struct.unpack("<%df" % len(values), struct.pack("<%df" % len(values), *values))
    if dtype == "i8":
        return tuple(min(127, max(-128, v)) for v in values)
    if dtype not in FORMATS:
        return tuple(values)
    mantissa, least, largest, over = FORMATS[dtype]
    known = {0: 0.0}
    for v in set(values) - {0}:
        ulp = math.ldexp(1.0, max(math.frexp(v)[1] - 1, least) - mantissa)
        r = round(v / ulp) * ulp
        known[v] = r if abs(r) <= largest else math.copysign(over, v)
    return tuple(known[v] for v in values)


class Golden:
    """A line of manifest.tsv and the arrays of that name."""

    def __init__(self, folder, fields):
        self.folder, self.wanted = folder, ""
        (self.name, self.op, self.ndim, self.g, self.n, self.k, self.c, self.filter, self.input, self.stride,
         self.dilation, self.low, self.high, self.extra) = fields
        self.arrays = {}

    def path(self, part):
        return os.path.join(self.folder, "%s.%s.npy" % (self.name, part))

    def array(self, part, dtype="f64"):
        if (part, dtype) not in self.arrays:
            if dtype == "f64":
                self.arrays[part, dtype] = read_npy(self.path(part))
            else:
                shape, values = self.array(part)
                self.arrays[part, dtype] = shape, round_to(dtype, values)
        return self.arrays[part, dtype]

    def geometry(self):
        words = ["--ndim", self.ndim, "--g", self.g, "--n", self.n, "--c", self.c, "--input", self.input]
        if self.op == "groupnorm":
            for option in self.extra.split(","):  # eps=1e-5,act=gelu,per-image
                name, _, value = option.partition("=")
                words += ["--" + name] + ([value] if value else [])
            return words
        words += ["--k", self.k, "--filter", self.filter, "--stride", self.stride]
        words += ["--dilation", self.dilation, "--pad", self.low, "--pad-hi", self.high]
        return words + (["--k1", self.extra.split("=")[1]] if self.op == "conv_conv" else [])


def write_npy(path, shape, values):
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': %r, }" % (shape,)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack("<%dd" % len(values), *values))


def large_norm(folder, name, g, c, height, width):
    """A group norm whose slabs are large enough for several blocks, which none of PyTorch's is; its results
    by the definition."""
    n, eps = 1, 1e-3
    golden = Golden(folder, [name, "groupnorm", "2", str(g), str(n), "-", str(c), "-",
                             "%d,%d" % (height, width), "-", "-", "-", "-", "eps=%g" % eps])
    space, source = height * width, random.Random(1)
    count = c * space
    a = {part: [source.randrange(-128, 129) / 64 for _ in range(length)]
         for part, length in (("in", g * count), ("dout", g * count), ("gamma", g * c), ("beta", g * c))}
    a.update({part: [] for part in ("mean", "inv_std", "out", "din", "dgamma", "dbeta")})
    for slab in range(g):
        x, dy = (a[part][slab * count:(slab + 1) * count] for part in ("in", "dout"))
        mean = math.fsum(x) / count
        scale = 1 / math.sqrt(math.fsum((v - mean) ** 2 for v in x) / count + eps)
        hat = [(v - mean) * scale for v in x]
        channel = [slab * c + i // space for i in range(count)]
        a["mean"].append(mean)
        a["inv_std"].append(scale)
        a["out"] += [h * a["gamma"][k] + a["beta"][k] for h, k in zip(hat, channel)]
        for k in range(c):
            part = slice(k * space, (k + 1) * space)
            a["dgamma"].append(math.fsum(d * h for d, h in zip(dy[part], hat[part])))
            a["dbeta"].append(math.fsum(dy[part]))
        dyg = [d * a["gamma"][k] for d, k in zip(dy, channel)]
        first, second = math.fsum(dyg) / count, math.fsum(d * h for d, h in zip(dyg, hat)) / count
        a["din"] += [scale * (d - first - h * second) for d, h in zip(dyg, hat)]
    for part, values in a.items():
        shape = {g * count: (n, g * c, height, width), g * c: (g * c,), g: (n, g)}[len(values)]
        write_npy(golden.path(part), shape, values)
    return golden


def centred(folder, name, g, n, k, c, size, stride, height, width, wanted):
    """A convolution of small integers with a square filter, padded by half of it, for the instance with
    `wanted` in its name; its results by the definition. k, c: of each group."""
    pad, source = size // 2, random.Random(1)
    high, wide = ((length - 1) // stride + 1 for length in (height, width))
    golden = Golden(folder, [name, "conv", "2", str(g), str(n), str(k), str(c), "%d,%d" % (size, size),
                             "%d,%d" % (height, width), "%d,%d" % (stride, stride), "1,1",
                             "%d,%d" % (pad, pad), "%d,%d" % (pad, pad), "-"])
    golden.wanted = wanted
    shapes = {"in": (n, g * c, height, width), "wei": (g * k, c, size, size), "out": (n, g * k, high, wide)}
    shapes.update({"d" + part: shape for part, shape in shapes.items()})
    a = {part: [source.randrange(-3, 4) for _ in range(math.prod(shapes[part]))]
         for part in ("in", "dout", "wei")}
    a.update({part: [0] * math.prod(shapes[part]) for part in ("out", "din", "dwei")})
    for batch, to, of, y, x in itertools.product(*map(range, (n, g * k, c, size, size))):
        w = (to * c + of) * size * size + y * size + x
        read, written = (batch * g + to // k) * c + of, batch * g * k + to
        for row in range(high):
            i = row * stride + y - pad
            for q in range(wide if 0 <= i < height else 0):
                j = q * stride + x - pad
                if 0 <= j < width:
                    inside, outside = (read * height + i) * width + j, (written * high + row) * wide + q
                    a["out"][outside] += a["in"][inside] * a["wei"][w]
                    a["din"][inside] += a["dout"][outside] * a["wei"][w]
                    a["dwei"][w] += a["dout"][outside] * a["in"][inside]
    for part, values in a.items():
        write_npy(golden.path(part), shapes[part], values)
    return golden


def computed_here(folder):
    """Problems that reach kernels which none of PyTorch's does."""
    return [large_norm(folder, "gnlarge0", 2, 3, 90, 101), large_norm(folder, "gnlarge1", 2, 8, 32, 36),
            centred(folder, "walk3", 12, 2, 1, 1, 3, 1, 9, 16, "depthwise"),
            centred(folder, "walk5", 12, 2, 1, 1, 5, 1, 9, 16, "depthwise"),
            centred(folder, "walk7", 12, 2, 1, 1, 7, 1, 9, 16, "depthwise"),
            centred(folder, "walk11", 8, 1, 1, 1, 11, 1, 12, 16, "depthwise"),
            centred(folder, "near4", 16, 2, 4, 4, 3, 1, 7, 8, "near"),
            centred(folder, "near32", 2, 1, 32, 32, 3, 1, 5, 8, "near"),
            centred(folder, "stem7", 1, 2, 16, 3, 7, 2, 17, 24, "stem"),
            centred(folder, "stem3", 1, 2, 32, 4, 3, 1, 9, 16, "stem")]


class Case:
    """One operation of the driver: its arguments, the arrays that it reads, and those that it writes."""

    def __init__(self, golden, op, dtype, layout):
        self.golden, self.op, self.dtype, self.layout = golden, op, dtype, layout
        self.problem = golden.geometry() + ["--dtype", dtype, "--layout", layout]
        if golden.op == "groupnorm":
            self.reads, self.writes = NORMS[op]
            return
        self.problem += ["--wei-layout", "GKCYX"] if layout == "NGCHW" else []
        if golden.op == "conv_conv":
            self.reads, self.writes = ("in", "wei0", "wei1"), ("out", "mid")
            self.problem += ["--wei1-layout", "GKCYX"] if layout == "NGCHW" else []
            self.written = "i32" if dtype == "i8" else dtype
            self.problem += ["--out-dtype", "i32"] if dtype == "i8" else []
            return
        self.reads, self.writes = PASSES[op][:2], PASSES[op][2:]
        self.written = dtype
        if dtype == "i8":
            self.written = "i32"
            kind = {"bwd_data": "--dtype", "bwd_weight": "--wei-dtype", "fwd": "--out-dtype"}[op]
            self.problem += ["--wei-dtype", dtype, "--out-dtype", dtype]
            self.problem[self.problem.index(kind) + 1] = "i32"

    def files(self, writes, folder, reads=None):
        words = []
        for part in reads or self.reads:
            words += ["--" + part.replace("_", "-"), self.golden.path(part)]
        for part in writes:
            words += ["--" + part.replace("_", "-"), os.path.join(folder, part + ".npy")]
        return words

    def options(self, listed):
        """(label, more arguments, written arrays): what can be done besides the planner's choice."""
        names = [name for name, family in listed]
        result = [(name, ["--instance", name], self.writes) for name in names]
        result.append(("no workspace", ["--max-workspace", "-1"], self.writes))
        if self.golden.op == "conv":
            result.append(("split", ["--split-k", "4"], self.writes))
            result += [(name + " split", ["--instance", name, "--split-k", "4"], self.writes)
                       for name, family in listed if family == "vector"]
        elif self.golden.op == "conv_conv":
            result += [(name + " no mid", ["--instance", name], self.writes[:1]) for name in names]
        elif self.op == "groupnorm_bwd":
            result += [("din", [], self.writes[:1]), ("parameters", [], self.writes[1:])]
            result.append((NO_STATISTICS, [], self.writes))
            result.append((NO_STATISTICS + " no workspace", ["--max-workspace", "-1"], self.writes))
            result.append(("parameters no workspace", ["--max-workspace", "-1"], self.writes[1:]))
        else:
            result.append(("out", [], self.writes[:1]))
        return result


class Runner:
    def __init__(self, object_file, target, ckconv, emulate, settings):
        self.object, self.target, self.ckconv, self.emulate = object_file, target, ckconv, emulate
        self.settings = settings
        self.kernels, self.tally = collections.Counter(), collections.Counter()
        self.instances, self.tried, self.names = collections.Counter(), collections.Counter(), set()
        self.launches = self.differ = self.runs = self.against_ref = 0

    def driver(self, *words):
        p = subprocess.run([self.ckconv] + list(words), capture_output=True, text=True)
        return p.returncode, p.stdout, p.stderr.strip()

    def fail(self, case, command, text, folder):
        """A line, and the command without --dump-launch DIR."""
        self.differ += 1
        shown = shlex.join(command).replace(folder + "/", "")
        print("%s %s %s %s %s: %s\n    ckconv %s" % (
            self.target, case.golden.name, case.op, case.dtype, case.layout, text, shown))
        sys.stdout.flush()
        if self.settings["--keep"] and not os.path.exists(self.settings["--keep"]):
            shutil.copytree(folder, self.settings["--keep"])

    def list(self, case):
        """The instance that the planner takes, and the GPU instances that fit with their families."""
        status, out, err = self.driver("list", case.op, *case.problem, "--target", self.target)
        lines = out.splitlines()
        if status != 0 or not lines or ": engine gpu, " not in lines[0]:
            return None, [], err or (lines[0] if lines else "nothing listed")
        rows = [line.split("\t") for line in lines[2:]]
        fits = [(r[0], r[2]) for r in rows if r[1] == "gpu" and r[3] == "supported"]
        return lines[0].split(": engine gpu, ")[1].split(" ")[0], fits, None

    def run(self, case, extra, writes, must, reads=None):
        """One run. must: the driver has to take the options. True: it did."""
        folder = tempfile.mkdtemp(dir=self.settings["scratch"])
        try:
            command = ["run", case.op] + case.problem + case.files(writes, folder, reads) + extra
            command += ["--target", self.target]
            status, out, err = self.driver(*command, "--dump-launch", folder)
            if status != 0:
                if must:
                    self.fail(case, command, "dump: " + err, folder)
                return False
            with open(os.path.join(folder, "launch.txt")) as f:
                launched = [line.split()[1] for line in f if line.startswith("launch ")]
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                status = self.emulate.main([self.object, folder] + self.settings["emulate"])
            self.runs += 1
            self.launches += len(launched)
            self.kernels.update(launched)
            if status != 0:
                self.fail(case, command, said.getvalue().splitlines()[-1], folder)
                return True
            status, out, err = self.driver(*command, "--load-results", folder)
            if status != 0:
                self.fail(case, command, "load: " + err, folder)
                return True
            for part in writes:
                text = self.compare(case, part, folder)
                if text:
                    self.fail(case, command, text, folder)
                    break
            return True
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def expected(self, case, part, folder):
        golden = case.golden
        if part == "mid":
            return golden.array(part, case.dtype)
        if golden.op == "conv" or golden.array("mid", case.dtype) == golden.array("mid"):
            return golden.array(part, case.written)
        self.against_ref += 1
        above = os.path.dirname(folder)
        command = ["run", case.op] + case.problem + case.files(("out",), above) + ["--engine", "ref"]
        status, out, err = self.driver(*command)
        if status != 0:
            raise ValueError("ref: " + err)
        return read_npy(os.path.join(above, "out.npy"))

    def compare(self, case, part, folder):
        shape, got = read_npy(os.path.join(folder, part + ".npy"))
        if case.golden.op == "groupnorm":
            golden_shape, want = case.golden.array(part)
            largest = max(map(abs, want)) or 1.0
            worst = max((abs(a - b) for a, b in zip(got, want)), default=0.0) / largest
            bad = not worst <= TOLERANCE[case.dtype] or any(v != v for v in got)
            text = "%s is off by %.3g of its largest value" % (part, worst)
        else:
            golden_shape, want = self.expected(case, part, folder)
            wrong = [i for i, (a, b) in enumerate(zip(got, want)) if a != b]
            bad = bool(wrong)
            if bad:
                text = "%s: %d of %d differ, first [%d] %r, expected %r" % (
                    part, len(wrong), len(want), wrong[0], got[wrong[0]], want[wrong[0]])
        if len(got) != len(want) or math.prod(shape) != math.prod(golden_shape):
            return "%s: shape %s, expected %s" % (part, shape, golden_shape)
        return text if bad else None

    def one(self, case):
        """The planner's choice, then what has not been tried often enough."""
        chosen, fits, err = self.list(case)
        self.names.add((case.golden.name, case.op, case.dtype, case.layout))
        if chosen is None:
            command = ["list", case.op] + case.problem + ["--target", self.target]
            self.fail(case, command, "list: " + err, self.settings["scratch"])
            return
        self.run(case, [], case.writes, True)
        self.instances[chosen] += 1
        wanted = "" if self.settings["all"] else case.golden.wanted
        self.tally[case.op, case.dtype, wanted + chosen] += 1
        options = [o for o in case.options(fits) if o[0] != chosen and wanted in o[0]]
        turn = min((o[0] for o in options), default="",
                   key=lambda label: self.tried[case.op, case.dtype, label])
        for label, extra, writes in options:
            # PyTorch's problems have their turns as if those with a wanted instance were not
            key = case.op, case.dtype, wanted + label
            if not (wanted or label == turn or self.settings["all"] or self.tally[key] < TWICE):
                continue
            self.tried[key] += 1
            # an instance alone must be taken, as the driver listed it
            must = len(extra) == 2 and extra[0] == "--instance"
            if self.run(case, extra, writes, must, case.reads[:4] if NO_STATISTICS in label else None):
                self.tally[key] += 1
                if extra[:1] == ["--instance"]:
                    self.instances[extra[1]] += 1


def cases(golden, dtypes, layouts):
    ops = {"conv": PASSES, "conv_conv": ("conv_conv_fwd",), "groupnorm": NORMS}[golden.op]
    for dtype in dtypes:
        if golden.op == "groupnorm" and dtype not in TOLERANCE:
            continue
        for layout in layouts:
            for op in ops:
                yield Case(golden, op, dtype, layout)


def report(runner, code, seconds):
    print("kernels executed (launches):")
    for name in sorted(runner.kernels):
        print("    %-32s %6d" % (name, runner.kernels[name]))
    missing = sorted(set(code.kernels) - set(runner.kernels))
    empty = [name for name in missing if code.symbols[name][1] == END_ALONE]
    missing = [name for name in missing if name not in empty]
    if empty:
        print("note: %s: %d kernels are empty, of tiles that this target has no instance for" % (
            runner.target, len(empty)))
    if missing:
        print("note: %s: %d of %d kernels not executed: %s" % (
            runner.target, len(missing), len(code.kernels), " ".join(missing)))
    print("instances: " + ", ".join("%s %d" % i for i in sorted(runner.instances.items())))
    print("%s: %d cases, %d runs (%d out of conv_conv against ref), %d of %d kernels, %.0f s" % (
        runner.target, len(runner.names), runner.runs, runner.against_ref, len(runner.kernels),
        len(code.kernels), seconds))
    print("%s: %d problems, %d launches, %d differ" % (
        runner.target, len({n[0] for n in runner.names}), runner.launches, runner.differ))


def main(arguments):
    settings = {"--every": "1", "--dtypes": "f32,f16,bf16,f64,i8,f8e4m3", "--layouts": "NHWGC,NGCHW",
                "--instances": "some", "--match": "", "--keep": "", "--seconds": "inf"}
    names, words, reverse = [], iter(arguments), []
    for word in words:
        if word == "--reverse":
            reverse = [word]
        elif word in settings:
            settings[word] = next(words, "")
        else:
            names.append(word)
    if len(names) != 4 or any(name.startswith("--") for name in names):
        print("usage: amd_golden.py CODE_OBJECT TARGET CKCONV GOLDEN_DIR [OPTIONS]", file=sys.stderr)
        return 2
    missing = [name for name in ("AMDEMU", "TINYGRAD") if not os.environ.get(name)]
    if missing:
        print("amd_golden: %s: not set in the environment" % " and ".join(missing), file=sys.stderr)
        return 2
    sys.path[:0] = [HERE, os.path.join(HERE, "tests"), os.environ["AMDEMU"]]
    import amd_emulate
    import amdemu
    code = amdemu.CodeObject(names[0])
    amdemu.CodeObject = lambda path: code  # amd_emulate asks for it at each dump: what is decoded stays
    every, start = int(settings["--every"]), time.time()
    settings["all"], settings["emulate"] = settings["--instances"] == "all", reverse
    with open(os.path.join(names[3], "manifest.tsv")) as f:
        problems = [Golden(names[3], line.split()) for line in f.readlines()[1:] if line.strip()]
    # all operations from the beginning, should --seconds end
    count = collections.Counter(p.op for p in problems)
    problems.sort(key=lambda p: int(re.sub("[a-z]*", "", p.name)) / count[p.op])
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as scratch:
        settings["scratch"] = scratch
        runner = Runner(names[0], names[1], names[2], amd_emulate, settings)
        problems[:0] = computed_here(scratch)
        left, seen = 0, collections.Counter()
        for golden in problems:
            number = seen[golden.op]
            if not re.search(settings["--match"], golden.name):
                continue
            seen[golden.op] += 1
            if number % every != 0:
                continue
            several = list(cases(golden, settings["--dtypes"].split(","), settings["--layouts"].split(",")))
            # from another offset each time, so that each combination has its turn
            for case in several[number // every % every::every]:
                if time.time() - start > float(settings["--seconds"]):
                    left += 1
                else:
                    runner.one(case)
            golden.arrays.clear()
        if left:
            print("%s: %d cases left out after %s s" % (names[1], left, settings["--seconds"]))
        report(runner, code, time.time() - start)
    return 1 if runner.differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
