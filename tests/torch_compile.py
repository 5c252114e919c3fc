"""python/ckconv_torch.py in graphs and in a loop: the operators of torch.library (opcheck, strides of fake results,
gradcheck), torch.compile, CUDA graphs, and what a call costs the host beside PyTorch's own.

usage: torch_compile.py [--device cuda|cpu] [--limit US] [--calls 2000] [--no-times]

Without --device: the GPU where PyTorch has one. --limit: calls of the forward functions that take the host longer, in
us, are failures. Needs `make python` (with GPU=cuda or GPU=hip for a GPU). PyTorch before 2.4 has no operators, a CPU
no CUDA graphs: a line says so. Ends with `torch_compile: N passed, M failed`; the exit status tells, too.
SPDX-License-Identifier: MIT
"""
import argparse
import contextlib
import itertools
import os
import sys
import time

# Graphs that an earlier run left on the disk may call what the binding called then.
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import ckconv_torch as ck  # noqa: E402

passed = failed = 0
device = torch.device("cpu")


def check(good, what):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print("FAIL", what, flush=True)
    return bool(good)


def random(*shape, last=False, dtype=torch.float32, grad=True):
    t = torch.randn(shape, dtype=torch.float64).to(device, dtype)
    if last:
        t = t.movedim(1, -1).contiguous().movedim(-1, 1)
    return t.detach().requires_grad_(grad)


# --- Operators

def conv_calls(ndim, groups, bias, last, dtype, c=4, k=6):
    """(operator, its arguments) for the three operations of one convolution."""
    space, window, c, k = [7, 9, 6][:ndim], [3, 2, 3][:ndim], c * groups, k * groups
    one, two = (1,) * ndim, (2,) * ndim
    pad = (1,) * ndim
    numbers = (tuple(space), tuple(window), two, one, pad, pad, groups, last, last)
    x, w = random(2, c, *space, last=last, dtype=dtype), random(k, c // groups, *window, last=last, dtype=dtype)
    out = [(i + 2 - f) // 2 + 1 for i, f in zip(space, window)]
    dy = random(2, k, *out, last=last, dtype=dtype)
    ops = torch.ops.ckconv
    return ((ops.conv_fwd.default, (x, w, random(k, dtype=dtype) if bias else None, *numbers)),
            (ops.conv_bwd_data.default, (dy, w, random(c, dtype=dtype) if bias else None, *numbers)),
            (ops.conv_bwd_weight.default, (x, dy, None, *numbers)))


def norm_calls(shape, affine, act, last, dtype):
    """affine: none, for all samples, for each"""
    x, gamma, beta = random(*shape, last=last, dtype=dtype), None, None
    if affine:
        gamma, beta = (random(*shape[2 - affine:2], dtype=torch.float64 if dtype == torch.float64 else torch.float32)
                       for _ in range(2))
    facts = 4, 1e-5, act, last
    ops = torch.ops.ckconv
    yield ops.group_norm.default, (x, gamma, beta, *facts)
    plain = [t.detach() if t is not None else None for t in (x, gamma, beta)]
    y, stat = ops.group_norm(*plain, *facts)
    for need in ((True, affine > 0, affine > 0), (True, False, False)) + (((False, True, False),) if affine else ()):
        yield ops.group_norm_backward.default, (torch.randn_like(y), *plain, stat, *facts, need)


def all_calls():
    dtypes = itertools.cycle((torch.float32, torch.bfloat16, torch.float64) if device.type == "cpu" else
                             (torch.float32, torch.bfloat16, torch.float16))
    for ndim, groups, last in itertools.product((1, 2, 3), (1, 2), (False, True)):
        if ndim > 1 or not last:
            yield from conv_calls(ndim, groups, groups == 1, last, next(dtypes))
    for last, affine, act in itertools.product((False, True), (0, 1, 2), (ck.PASS, ck.SILU, ck.GELU)):
        yield from norm_calls((2, 8, 5, 6), affine, act, last, next(dtypes))


def test_opcheck():
    for op, args in all_calls():
        tensors = [f"{tuple(a.shape)} {a.stride()} {a.dtype}" for a in args if isinstance(a, torch.Tensor)]
        try:
            results = torch.library.opcheck(op, args)
            wrong = [name for name, result in results.items() if result != "SUCCESS"]
        except Exception as error:  # what opcheck raises differs by test
            wrong = f"{type(error).__name__}: {error}"
        for name in ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"):
            check(not wrong or (isinstance(wrong, list) and name not in wrong),
                  f"opcheck {op} {tensors} {name}: {wrong}")


def test_fake():
    """A fake result has the strides and the type of the real one, also of strided and of copied tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    for op, args in all_calls():
        for odd in (False, True):
            if odd:  # every second element of a larger tensor
                args = tuple(torch.stack((a, a), -1).detach().flatten(-2)[..., ::2] if isinstance(a, torch.Tensor) and
                             a.dim() > 2 else a for a in args)
            with FakeTensorMode() as mode:
                fake = op(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
            real = op(*args)
            for f, r in zip(*((t if isinstance(t, tuple) else (t,)) for t in (fake, real))):
                check(f.shape == r.shape and f.stride() == r.stride() and f.dtype == r.dtype and f.device == r.device,
                      f"fake {op}: {f.shape} {f.stride()}, real {r.shape} {r.stride()}, odd {odd}")
    with FakeTensorMode():
        y = ck.conv2d(torch.empty(2, 3, 8, 8, device=device), torch.empty(4, 3, 3, 3, device=device), None, 2, "valid")
        check(tuple(y.shape) == (2, 4, 3, 3), "a convolution of fake tensors")


def test_gradcheck():
    """Of the operators, in float64: those that autograd.Function does not serve."""
    torch.manual_seed(4)
    checks = {"gradcheck": torch.autograd.gradcheck, "gradgradcheck": torch.autograd.gradgradcheck}

    def both(f, leaves, what, names=tuple(checks)):
        for name in names:
            check(checks[name](f, leaves, raise_exception=False, nondet_tol=1e-9), f"{name} of {what}")

    for (op, args), names in zip(conv_calls(2, 2, True, False, torch.float64, 1, 2), (checks, checks, ("gradcheck",))):
        leaves = [a for a in args[:3] if a is not None]
        both(lambda *t, op=op, args=args: op(*t, *([None] * (3 - len(t))), *args[3:]), leaves, str(op), names)
    for act, each in ((ck.PASS, ()), (ck.SILU, ()), (ck.GELU, (2,))):
        leaves = [random(*shape, dtype=torch.float64) for shape in ((2, 4, 3, 2), (*each, 4), (*each, 4))]
        both(lambda x, w, b, act=act: torch.ops.ckconv.group_norm(x, w, b, 2, 1e-5, act, False)[0], leaves,
             f"group_norm {act}")


# --- A small network

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.conv = nn.Conv2d(16, 16, 3, padding="same", groups=2, bias=False)
        self.up = nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1)

    def forward(self, x):
        return self.up(self.conv(F.silu(self.norm(self.stem(x)))) + x.mean())


def network(last, dtype=torch.float32):
    torch.manual_seed(5)
    net, x = Net().to(device, dtype), torch.randn(4, 3, 16, 16).to(device, dtype)
    if last:
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    return net, x


def train(last, ours, wrap=lambda net: net, dtype=torch.float32):
    """(losses of three steps, the weights after them, the last output)"""
    net, x = network(last, dtype)
    step, losses = torch.optim.SGD(net.parameters(), lr=.5), []
    with ck.use() if ours else contextlib.nullcontext():
        f = wrap(net)
        for _ in range(3):
            step.zero_grad()
            y = f(x)
            loss = (y.float() - 1).square().mean()
            loss.backward()
            step.step()
            losses.append(loss.item())
    return losses, [p.detach().clone() for p in net.parameters()], y


def same_training(got, want, limit, what):
    """Losses and weights equal within rounding; and that the weights moved by far more than that."""
    begin = [p.detach() for p in network(False)[0].parameters()]
    check(all(abs(a - b) <= limit * abs(b) for a, b in zip(got[0], want[0])), f"{what}: losses {got[0]}, {want[0]}")
    check(want[0][2] < want[0][0], f"{what}: losses {want[0]} do not fall")
    for a, b, c in zip(got[1], want[1], begin):
        off, moved = float((a - b).abs().max()), float((b - c).abs().max())
        check(off <= 50 * limit * moved, f"{what}: weights of {tuple(a.shape)} off by {off}, moved by {moved}")


def test_compile():
    counts = {"conv_fwd": 9, "conv_bwd_data": 6, "conv_bwd_weight": 9, "group_norm": 3, "group_norm_backward": 3}
    ways = {"": {}, " dynamic": {"dynamic": True}}
    if device.type == "cuda":
        ways[" reduce-overhead"] = {"mode": "reduce-overhead"}
    for last in (False, True):
        torchs, eager = train(last, False), train(last, True)
        same_training(eager, torchs, 1e-5, f"eager, last {last}")
        for name, options in ways.items():
            what = f"torch.compile{name}, last {last}"
            torch._dynamo.reset()
            ck.reset_report()
            compiled = train(last, True, lambda net: torch.compile(net, fullgraph=True, **options))
            same_training(compiled, eager, 1e-5, what)
            check(compiled[2].stride() == eager[2].stride() and ck._is_last(compiled[2]) == last,
                  f"{what}: strides of the output {compiled[2].stride()}, {eager[2].stride()}")
            lines = ck.report().splitlines()
            if "reduce" in name:  # what a CUDA graph replays is not seen
                check(sum("torch.ops.ckconv" in line for line in lines) == 5, f"{what}: {lines}")
            else:
                check(lines == [f"torch.ops.ckconv.{n}: {counts[n]} by ckconv" for n in sorted(counts)],
                      f"{what}: {lines}")
    torch._dynamo.reset()
    net, x = network(True)
    f = torch.compile(net, fullgraph=True)
    want = f(x)  # of PyTorch's own
    ck.reset_report()
    with torch.no_grad(), ck.use():
        got = f(x)
        check("conv_fwd: 2 by ckconv" in ck.report(), "compiled before patch(), called after: " + ck.report())
    check(torch.allclose(got, want, atol=1e-5) and got.stride() == want.stride(), "compiled before patch()")
    ck.reset_report()
    with torch.no_grad():
        f(x)
    check(ck.report() == "no convolution or group norm yet", "compiled, after use(): " + ck.report())
    types = {"cpu": torch.bfloat16, "cuda": torch.float16}
    with torch.no_grad(), ck.use(), torch.autocast(device.type, types[device.type]):
        y = torch.compile(lambda t: F.conv2d(t, net.stem.weight, net.stem.bias), fullgraph=True)(x)
        want = F.conv2d(x, net.stem.weight, net.stem.bias)
        check(y.dtype == types[device.type] and torch.equal(y, want), "compiled under autocast")
        z = torch.compile(lambda t: F.conv2d(t, t), fullgraph=True)(x.to(torch.complex64))  # left to PyTorch
        check(z.dtype == torch.complex64, "compiled, what ckconv does not take")


def test_modes():
    """What is traced by other means, and functorch's transforms, which PyTorch serves."""
    from torch.utils.flop_counter import FlopCounterMode
    x, w = random(2, 3, 8, 8), random(4, 3, 3, 3)
    y = ck.conv2d(x, w)
    with FlopCounterMode(display=False):
        check(torch.equal(ck.conv2d(x, w), y), "under a dispatch mode")
    graph = torch.fx.experimental.proxy_tensor.make_fx(lambda a, b: ck.conv2d(a, b))(x.detach(), w.detach())
    check(any(n.target is torch.ops.ckconv.conv_fwd.default for n in graph.graph.nodes), f"make_fx: {graph.graph}")
    check(torch.equal(graph(x, w), y), "make_fx's graph")
    ck.reset_report()
    many = torch.func.vmap(lambda a: ck.conv2d(a, w))(torch.stack((x, x)).detach())
    check(torch.allclose(many[1], y, atol=1e-4 if device.type == "cpu" else 1e-2), "vmap")
    g = torch.func.grad(lambda b: ck.conv2d(x.detach(), b).sum())(w.detach())
    ck.conv2d(x.detach(), w).sum().backward()
    check(torch.allclose(g, w.grad, rtol=1e-4, atol=1e-3 if device.type == "cpu" else 5e-1), "torch.func.grad")
    check("functorch" in ck.report(), ck.report())


def test_cuda_graph():
    """A captured training step gives, bit for bit, what the same steps give without a graph."""
    for last in (False, True):
        results = []
        for captured in (False, True):
            net, x = network(last)
            step = torch.optim.SGD(net.parameters(), lr=.5)

            def one():
                step.zero_grad(set_to_none=True)
                loss = (net(x) - 1).square().mean()
                loss.backward()
                step.step()
                return loss

            with ck.use():
                if captured:
                    begin = [p.detach().clone() for p in net.parameters()]
                    side = torch.cuda.Stream()
                    side.wait_stream(torch.cuda.current_stream())
                    with torch.cuda.stream(side):
                        for _ in range(3):
                            one()
                    torch.cuda.current_stream().wait_stream(side)
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        loss = one()
                    with torch.no_grad():
                        for p, b in zip(net.parameters(), begin):
                            p.copy_(b)
                    for _ in range(5):
                        junk = [torch.randn(1 << 16, device=device) for _ in range(8)]  # memory of others
                        graph.replay()
                    del junk
                else:
                    for _ in range(5):
                        loss = one()
            torch.cuda.synchronize()
            results.append([float(loss), *(p.detach().clone() for p in net.parameters())])
        check(results[0][0] == results[1][0], f"CUDA graph, last {last}: losses {results[0][0]}, {results[1][0]}")
        check(all(torch.equal(a, b) for a, b in zip(results[0][1:], results[1][1:])),
              f"CUDA graph, last {last}: weights")


# --- What a call costs

def microseconds(f, calls):
    """Of the host, the least of ten rounds: not longer ones, so that no queue of a GPU is full."""
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    for _ in range(20):
        f()
    best = 1e9
    for _ in range(10):
        wait()
        begin = clock()
        for _ in range(calls // 10):
            f()
        best = min(best, clock() - begin)
        wait()
    return best / (calls // 10) * 1e6


def times(calls, limit):
    dtype, size, c = (torch.float32, 4, 8) if device.type == "cpu" else (torch.bfloat16, 8, 64)
    x, w, b = random(1, c, size, size, last=True, dtype=dtype), random(c, c, 1, 1, dtype=dtype), random(c, dtype=dtype)
    layers = {
        "conv2d": lambda f: lambda: f["conv2d"](x, w),
        "conv2d with bias": lambda f: lambda: f["conv2d"](x, w, b, (1, 1), (0, 0), (1, 1), 1),
        "conv_transpose2d": lambda f: lambda: f["conv_transpose2d"](x, w),
        "group_norm": lambda f: lambda: f["group_norm"](x, 4, b, b),
    }
    ours = {name: getattr(ck, name) for name in ck._names}
    place = torch.cuda.get_device_name() if device.type == "cuda" else "CPU, one thread"
    print(f"us of the host per call: PyTorch {torch.__version__}, {place}, {'without' if ck._fast else 'with'} ctypes; "
          "in brackets: the library's run alone")
    print(f"{'':24}{'no gradients':>26}{'forward, gradients':>26}{'forward and backward':>26}")
    print(f"{'':24}" + f"{'ckconv':>16}{'PyTorch':>10}" * 3)
    for name, layer in layers.items():
        line, results = f"{name:24}", []
        for backward in (None, False, True):
            for functions in (ours, ck._torch):
                forward = layer(functions)
                with torch.no_grad() if backward is None else torch.enable_grad():
                    f, launch = forward, ""
                    if backward:
                        dy = torch.ones_like(forward())
                        f = lambda forward=forward, dy=dy: torch.autograd.backward(forward(), dy)  # noqa: E731
                    if backward is None and functions is ours:
                        launch = f" ({microseconds(launch_of(forward), calls):.1f})"
                    results.append(microseconds(f, calls))
                line += f"{results[-1]:{10 if functions is not ours else 16 - len(launch)}.1f}" + launch
        print(line, flush=True)
        for what, got in (("without gradients", results[0]), ("with gradients", results[2])):
            if limit:
                check(got <= limit, f"{name} {what}: {got:.1f} us of the host, more than {limit}")


def launch_of(forward):
    """The launch that forward makes, alone, into the same memory again and again."""
    seen, real = [], ck._Launch.__call__

    def note(self, *addresses):
        seen.append((self, addresses))
        real(self, *addresses)

    ck._Launch.__call__ = note
    try:
        kept = forward()
    finally:
        ck._Launch.__call__ = real
    (launch, addresses), = seen
    workspace = torch.empty(max(launch.plan.workspace_bytes, 1), dtype=torch.uint8, device=device)
    stream = ck._raw_stream(device.index) if device.type == "cuda" else 0

    def again(keep=kept):
        launch.run(launch.prepared, workspace.data_ptr(), stream, *addresses)

    return again


def main():
    global device
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--limit", type=float, default=0)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--no-times", action="store_true")
    o = parser.parse_args()
    device = torch.device(o.device)
    if device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device())
    else:
        torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    tests = []
    if ck.OPERATORS:
        tests += [test_opcheck, test_fake, test_gradcheck, test_compile, test_modes]
    else:
        print(f"skipped: operators, torch.compile (PyTorch 2.4 and later; here {torch.__version__})")
    if device.type == "cuda":
        tests.append(test_cuda_graph)
    else:
        print("skipped: CUDA graphs (no GPU)")
    for test in tests:
        began = time.time()
        try:
            test()
        except Exception as error:  # the other tests tell something, too
            import traceback
            traceback.print_exc()
            check(False, f"{test.__name__}: {type(error).__name__}")
        print(f"{test.__name__}: {time.time() - began:.0f} s", flush=True)
    same_training(train(False, True), train(False, False), 1e-5, "eager")
    if not o.no_times:
        times(o.calls, o.limit)
    print(f"torch_compile: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
