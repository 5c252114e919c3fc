"""python/ckconv_torch.py beside PyTorch's own functions, on the CPU. Prints `torch_binding: N passed, M failed`.
SPDX-License-Identifier: MIT
"""
import itertools
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import ckconv_torch as ck  # noqa: E402

passed = failed = 0
UNIT = {torch.float64: 2.0 ** -53, torch.float32: 2.0 ** -24, torch.float16: 2.0 ** -11, torch.bfloat16: 2.0 ** -8}


def check(good, what):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print("FAIL", what)
    return good


def near(got, want, sums, what):
    """got, of its type, is want (float64) rounded, but for the rounding of sums: those of the products' sizes."""
    unit, inner = UNIT[got.dtype], UNIT[torch.float64 if got.dtype == torch.float64 else torch.float32]
    error = (got.double() - want).abs()
    bound = 1.01 * unit * want.abs() + 32 * inner * sums + 1e-300 + (2.0 ** -24 if got.dtype == torch.float16 else 0)
    return check(got.shape == want.shape and bool((error <= bound).all()),
                 f"{what}: off by {float((error / bound).max()):.3g} of what is allowed")


def formats(t, last):
    if not last or t.dim() < 3:
        return t
    return t.movedim(1, -1).contiguous().movedim(-1, 1)


def one(kind, ndim, dtype, groups, stride, padding, dilation, bias, last, more=0):
    """A convolution and its gradients against PyTorch in float64."""
    c, k = 2 * groups, 3 * groups
    what = f"{kind}{ndim}d {dtype} groups {groups} stride {stride} padding {padding} dilation {dilation} " \
           f"bias {bias} last {last} output_padding {more}"
    space, window = [7, 9, 6][:ndim], [3, 2, 3][:ndim]
    x = torch.randn(2, c, *space, dtype=torch.float64).to(dtype)
    w = torch.randn(*((c, k // groups) if kind == "conv_transpose" else (k, c // groups)), *window,
                    dtype=torch.float64).to(dtype)
    b = torch.randn(k, dtype=torch.float64).to(dtype) if bias else None
    extra = {"output_padding": more} if kind == "conv_transpose" else {}
    ours, torchs = getattr(ck, f"{kind}{ndim}d"), ck._torch[f"{kind}{ndim}d"]
    results = []
    for f, move, size in ((ours, lambda t: t, None), (torchs, torch.Tensor.double, None),
                          (torchs, lambda t: t.double().abs(), 1)):
        leaves = [move(formats(t, last and size is None)).detach().requires_grad_() if t is not None else None
                  for t in (x, w, b)]
        y = f(*leaves, stride=stride, padding=padding, dilation=dilation, groups=groups, **extra)
        if not results:
            dy = torch.randn(y.shape, dtype=torch.float64).to(dtype)
            check(not last or ndim == 1 or y.numel() == 0 or ck._is_last(y), what + ": the result's layout")
        y.backward(move(dy) if size is None else dy.double().abs())
        results.append([y.detach(), *(t.grad if t is not None else None for t in leaves)])
    for name, got, want, sums in zip(("out", "din", "dwei", "dbias"), *results):
        if got is not None:
            check(got.dtype == dtype, what + ": type of " + name)
            near(got, want, sums, f"{what}: {name}")


def test_convolutions():
    types = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
    turn = itertools.cycle(types)
    for ndim, groups, stride, padding, dilation in itertools.product((1, 2, 3), (1, 2, 8), (1, 2), (0, 1, 2), (1, 2)):
        for last in (False, True):
            one("conv", ndim, next(turn), groups, stride, padding, dilation, groups != 2, last)
    for ndim, dilation in itertools.product((1, 2, 3), (1, 2)):
        one("conv", ndim, torch.float32, 2, 1, "same", dilation, True, True)
        one("conv", ndim, torch.float32, 2, 2, "valid", dilation, True, False)
    next(turn)
    for ndim, groups, stride, padding, last in itertools.product((1, 2, 3), (1, 3), (1, 2, 3), (0, 1), (False, True)):
        one("conv_transpose", ndim, next(turn), groups, stride, padding, 1, groups == 1, last, stride - 1)


def test_bias_gradients():
    """With dwei and, where weights are frozen, alone; of tensors seen before and of expanded gradients, which are
    copied; by the library, not by a sum of PyTorch's."""
    torch.manual_seed(4)
    asked, own = [], ck._conv_sums
    ck._conv_sums = lambda a, b, g, sums: (asked.append(sums), own(a, b, g, sums))[1]
    try:
        for dtype, last, frozen, groups in itertools.product(UNIT, (False, True), (False, True), (1, 4)):
            what = f"dbias {dtype} last {last} frozen {frozen} groups {groups}"
            x = formats(torch.randn(3, 4, 6, 5, dtype=torch.float64).to(dtype), last)
            w = torch.randn(8, 4 // groups, 3, 3, dtype=torch.float64).to(dtype).requires_grad_(not frozen)
            b = torch.zeros(8, dtype=dtype, requires_grad=True)
            for turn in range(3):
                dy = formats(torch.randn(3, 8, 4, 3, dtype=torch.float64).to(dtype), last)
                dy = dy if turn < 2 else torch.ones((), dtype=dtype).expand(3, 8, 4, 3)
                b.grad = None
                del asked[:]
                ck.conv2d(x, w, b, groups=groups).backward(dy)
                near(b.grad, dy.double().sum((0, 2, 3)), dy.double().abs().sum((0, 2, 3)), what)
                check(asked == [2 if frozen else 1], what + ": not computed beside dwei")
    finally:
        ck._conv_sums = own


def test_derivatives():
    """gradcheck and gradgradcheck in float64."""
    torch.manual_seed(1)
    leaf = lambda *s: torch.randn(*s, dtype=torch.float64, requires_grad=True)
    checks = {
        "conv2d": (lambda x, w, b: ck.conv2d(x, w, b, (2, 1), (1, 0), (1, 2), 2), leaf(2, 4, 6, 5), leaf(4, 2, 3, 2),
                   leaf(4)),
        "conv1d": (lambda x, w: ck.conv1d(x, w, None, 1, "same"), leaf(2, 3, 6), leaf(2, 3, 4)),
        "conv_transpose2d": (lambda x, w, b: ck.conv_transpose2d(x, w, b, 2, 1, 1, 2), leaf(1, 4, 3, 4),
                             leaf(4, 2, 3, 3), leaf(4)),
        "group_norm": (lambda x, w, b: ck.group_norm(x, 2, w, b), leaf(2, 4, 3, 2), leaf(4), leaf(4)),
        "group_norm silu": (lambda x, w, b: ck.group_norm(x, 2, w, b, 1e-5, "silu"), leaf(2, 4, 3), leaf(4), leaf(4)),
        "group_norm gelu": (lambda x, w, b: ck.group_norm(x, 2, w, b, 1e-5, "gelu"), leaf(2, 4, 3), leaf(4), leaf(4)),
        "group_norm relu, each": (lambda x, w, b: ck.group_norm(x, 2, w, b, 1e-5, "relu"), leaf(2, 4, 3), leaf(2, 4),
                                  leaf(2, 4)),
        "group_norm silu, each": (lambda x, w, b: ck.group_norm(x, 2, w, b, 1e-5, "silu"), leaf(2, 4, 3), leaf(2, 4),
                                  leaf(4)),
    }
    for name, (f, *inputs) in checks.items():
        check(torch.autograd.gradcheck(f, inputs, raise_exception=False), name + ": gradcheck")
        check(torch.autograd.gradgradcheck(f, inputs, raise_exception=False), name + ": gradgradcheck")


def test_graphs_of_gradients():
    """A gradient whose own dy needs none, after a layer; and of an input that is copied first."""
    torch.manual_seed(2)
    x, w = torch.randn(2, 3, 6, dtype=torch.float64), torch.randn(4, 3, 3, dtype=torch.float64)
    results = []
    for conv, norm in ((ck.conv1d, ck.group_norm), (ck._torch["conv1d"], ck._torch["group_norm"])):
        a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
        y = norm(conv(a, b), 2)
        first, = torch.autograd.grad((y * torch.arange(4.)).sum(), a, create_graph=True)
        base = torch.randn(2, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(5)).requires_grad_()
        d, = torch.autograd.grad(norm(base[:, :, ::2], 2).pow(3).sum(), base, create_graph=True)
        results.append((torch.autograd.grad((first.norm() - 1) ** 2, b)[0],
                        torch.autograd.grad(d.pow(2).sum(), base)[0]))
    for got, want in zip(*results):
        check(torch.allclose(got, want, atol=1e-9), "a gradient of a gradient")


def test_in_place():
    for last in (False, True):
        x, w = formats(torch.randn(2, 4, 6, 5), last), torch.randn(4, 4, 3, 3, requires_grad=True)
        for f in (lambda: ck.conv2d(x, w), lambda: ck.group_norm(ck.conv2d(x, w), 2)):
            want = F.relu(f() + 1)
            y = f()
            y += 1
            F.relu_(y)
            check(torch.equal(y, want), f"in place, last {last}")
            y.sum().backward()
    check(torch.equal(ck.conv2d(torch._neg_view(x), w), -ck.conv2d(x, w)), "a negated view")
    fixed = w.detach()
    try:
        torch.jit.trace(lambda t: ck.conv2d(t, fixed), x)
        check(True, "")
    except RuntimeError as error:
        check(False, f"a trace: {error}")


def test_group_norm():
    # affine: None, for all samples, for each
    for dtype, shape, groups, affine, last in itertools.product(
            (torch.float32, torch.float64), ((3, 8, 5), (2, 12, 4, 6), (2, 8, 3, 4, 2)), (1, 4), (0, 1, 2),
            (False, True)):
        x = formats(torch.randn(shape, dtype=dtype), last).requires_grad_()
        w, b = (torch.randn(shape[2 - affine:2], dtype=dtype, requires_grad=True) if affine else None for _ in range(2))
        dy = torch.randn(shape, dtype=dtype)
        for activation in (None, "silu", "sigmoid", "relu", "gelu"):
            grads = []
            for f in (ck.group_norm, None):
                if f is None:
                    y = ck._torch["group_norm"](x.double(), groups)
                    if affine:
                        wide = [t.double().reshape(*t.shape, *[1] * (len(shape) - 2)) for t in (w, b)]
                        y = y * wide[0] + wide[1]
                    y = y if activation is None else getattr(torch, activation)(y) if activation in (
                        "relu", "sigmoid") else getattr(F, activation)(y)
                else:
                    y = f(x, groups, w, b, activation=activation)
                leaves = [t for t in (x, w, b) if t is not None]
                grads.append([y.detach().double(), *(t.double() for t in torch.autograd.grad(y, leaves, dy.to(y.dtype)))])
            for name, got, want in zip(("y", "dx", "dgamma", "dbeta"), *grads):
                bound = 400 * UNIT[dtype] * (1 + want.abs().max())
                check(bool(((got - want).abs() <= bound).all()),
                      f"group_norm {dtype} {shape} {groups} {affine} {activation} {name}")
    # one of both for each sample; scale and shift of diffusion models
    x, w, b, scale = torch.randn(2, 8, 4, 3), torch.randn(8), torch.randn(8), torch.randn(2, 8, 1, 1)
    shift = torch.randn(2, 8, 1, 1)
    normed = ck._torch["group_norm"](x, 4)
    wide = w[:, None, None]
    got = ck.group_norm(x, 4, w, shift[:, :, 0, 0])
    check(torch.allclose(got, normed * wide + shift, atol=1e-5), "group_norm, weight for all, bias for each")
    one = 1 + scale[:, :, 0, 0]
    got = ck.group_norm(x, 4, w * one, b * one + shift[:, :, 0, 0], 1e-5, "silu")
    want = F.silu(ck._torch["group_norm"](x, 4, w, b) * (1 + scale) + shift)
    check(torch.allclose(got, want, atol=1e-5), "group_norm, scale and shift")


def test_what_is_handed_on():
    """Odd inputs give what PyTorch gives, or its errors; report() names them."""
    ck.reset_report()
    w = torch.randn(4, 3, 3, 3)
    with ck.use():
        x = torch.randn(2, 3, 8, 8)
        same = lambda a, b, what: check(a.shape == b.shape and torch.allclose(a, b, atol=1e-5), what)
        torchs = ck._torch["conv2d"]
        same(F.conv2d(x[0], w), torchs(x[0], w), "no batch")
        same(F.conv2d(x[:0], w), torchs(x[:0], w), "an empty batch")
        wide = torch.randn(2, 6, 8, 16)
        same(F.conv2d(wide[:, ::2, :, ::2], w), torchs(wide[:, ::2, :, ::2], w), "every second element")
        same(F.conv2d(wide[:, 2:5], w), torchs(wide[:, 2:5], w), "a slice of channels")
        same(F.conv2d(x.transpose(2, 3), w), torchs(x.transpose(2, 3), w), "transposed")
        same(F.conv2d(x[:1].expand(5, 3, 8, 8), w), torchs(x[:1].expand(5, 3, 8, 8), w), "expanded")
        leaf = x.clone().requires_grad_()
        F.conv2d(leaf, w).sum().backward()  # its gradient has strides of 0
        other = x.clone().requires_grad_()
        torchs(other, w).sum().backward()
        same(leaf.grad, other.grad, "an expanded gradient")
        same(F.conv2d(x.to(torch.complex64), w.to(torch.complex64)).real, torchs(x, w), "complex numbers")
        for bad in ((x, w[:, :2]), (x, torch.randn(4, 3, 9, 9)), (x, w.double()), (x, w, torch.randn(3)),
                    (x, w, None, 0), (x, w, None, 1, 0, 0), (x, w, None, 1.5), (x, w, None, 1, "bad"),
                    (x, w, torch.randn(4, 2)), (x, w, None, 1, -1)):
            try:
                F.conv2d(*bad)
                check(False, f"what PyTorch refuses was taken: {bad[2:]}")
            except (RuntimeError, TypeError):
                check(True, "")
        up = torch.randn(3, 4, 3, 3)
        for bad in ((x, up, torch.randn(4, 5)), (x, up, torch.tensor(1.)), (x, up, None, 2, 0, -1)):
            try:
                F.conv_transpose2d(*bad)
                check(False, f"what PyTorch refuses was taken: {bad[2:]}")
            except (RuntimeError, TypeError):
                check(True, "")
        more = (None, 1, 0, 1, 1, 2)
        same(F.conv_transpose2d(x[0], up, *more), ck._torch["conv_transpose2d"](x[0], up, *more),
             "output_padding of the stride, no batch")
        m = nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect")
        y = m(x)
    same(y, m(x), "a module with another padding mode")
    check("complex64" in ck.report() and "by ckconv" in ck.report(), "the report: " + ck.report())
    check(F.conv2d is ck._torch["conv2d"] and F.group_norm is ck._torch["group_norm"], "use() gives back")


def test_calls_seen_before():
    """A call that looks like an earlier one is found by its look: what may differ all the same."""
    torch.manual_seed(6)
    x, w, b = torch.randn(2, 3, 6, 6), torch.randn(4, 3, 3, 3), torch.randn(4)
    torchs = ck._torch["conv2d"]
    close = lambda got, want, what: check(torch.allclose(got, want, atol=1e-5), "seen before: " + what)  # noqa: E731
    for turn in range(3):
        for given in ((b, 1, 0, 1, 1), (None, (2, 1), (1, 0), (1, 1)), (b, [1, 2], 1), (None, 1, "same")):
            close(ck.conv2d(x, w, *given), torchs(x, w, *given), f"{given[1:]}, turn {turn}")
        x, w = x + 1, w * 2
    for bad in ((b, 1.0, 0, 1, 1), (None, (2.0, 1.0), (1, 0), (1, 1))):
        try:
            ck.conv2d(x, w, *bad)
            check(False, f"seen before as integers: {bad[1:]} was taken")
        except TypeError:
            check(True, "")
    close(ck.conv2d(torch._neg_view(x), w, b, 1, 0, 1, 1), torchs(-x, w, b), "a negated view")
    norm = ck._torch["group_norm"]
    close(ck.group_norm(torch._neg_view(x), 3, b[:3], b[:3]), norm(-x, 3, b[:3], b[:3]), "and its norm")
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    close(ck.conv2d(x, w, b, 1, 0, 1, 1), torchs(x, w, b), "another number of threads")
    torch.set_num_threads(threads)
    results = []
    for conv in (ck.conv2d, torchs):  # what was saved comes back with other strides
        leaves = [formats(t, True).detach().requires_grad_() for t in (x, w)]
        conv(*leaves).square().sum().backward()
        with torch.autograd.graph.save_on_cpu():
            y = conv(*leaves)
        y.square().sum().backward()
        results.append([leaf.grad for leaf in leaves])
    for got, want in zip(*results):
        check(torch.allclose(got, want, rtol=1e-4, atol=1e-3), "seen before: tensors saved by a hook")
    forget()
    with torch.inference_mode():  # what is kept of it serves others, too
        want = ck.group_norm(ck.conv2d(x, w, b), 2), torchs(x, w, b)
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    y = ck.conv2d(*leaves)
    check(torch.equal(ck.group_norm(y, 2), want[0]), "seen before: in inference mode")
    y.sum().backward()
    check(leaves[1].grad is not None and torch.allclose(y, want[1], atol=1e-5), "seen before: in inference mode")
    ck.conv2d(x, w, b, 1, 0, 1, 1), ck.group_norm(x, 3, b[:3], b[:3])
    for launch in ck._launches.values():  # as a GPU's: tensors that begin elsewhere are copied
        launch.mask = 15
    odd = torch.randn(x.numel() + 1)[1:].reshape(x.shape)
    check(odd.data_ptr() % 16 != 0, "the test's tensor begins at 16 bytes")
    close(ck.conv2d(odd, w, b, 1, 0, 1, 1), torchs(odd, w, b), "a tensor that begins elsewhere")
    close(ck.group_norm(odd, 3, b[:3], b[:3]), norm(odd, 3, b[:3], b[:3]), "and its norm")
    forget()


def forget():
    ck._launches.clear()
    ck._sites.clear()


def test_ways_to_call():
    """The library called by ctypes and, where it was built, by _ckconv_fast: the same bits, the same errors."""
    folder = os.path.dirname(os.path.abspath(ck.library()._name))
    if os.environ.get("CKCONV_FAST") != "0" and sys.version_info >= (3, 10) and \
            os.path.exists(os.path.join(folder, "_ckconv_fast.abi3.so")):
        check(ck._fast is not None, "_ckconv_fast was built and is not loaded")
    fast, results = ck._fast, []
    for way in (fast, None):
        ck._fast = way
        forget()
        torch.manual_seed(7)
        x, w, b = (torch.randn(s, requires_grad=True) for s in ((2, 4, 6, 5), (4, 2, 3, 3), (4,)))
        y = ck.group_norm(ck.conv2d(x, w, b, 1, 1, 1, 2), 2, b, b)
        y.square().sum().backward()
        results.append((y, x.grad, w.grad, b.grad))
        for launch in list(ck._launches.values()):
            check((launch.run is ck._run_slowly) == (way is None), "the way that a launch takes")
        launch = next(iter(ck._launches.values()))
        try:
            launch(0, 0, 0, 0)
            check(False, "a launch of nothing")
        except RuntimeError as error:
            check("NULL" in str(error), f"a launch of nothing: {error}")
    check(all(torch.equal(a, b) for a, b in zip(*results)), "ctypes and _ckconv_fast differ")
    ck._fast = fast
    forget()
    if fast:
        plan = ck.Plan()
        good = 1, ck.ct.addressof(plan), 0, b"\0\1"
        for bad, kind in ((good[:3], TypeError), ((0, *good[1:]), ValueError), ((*good[:3], b"\xff"), ValueError),
                          ((*good[:3], "text"), TypeError), ((*good[:2], -1, good[3]), OverflowError)):
            try:
                fast.prepare(*bad)
                check(False, f"prepare{bad} was taken")
            except kind:
                check(True, "")
        for bad in ((), (1, 0, 0), (fast.prepare(*good), 0, 0, 1), (fast.prepare(*good), 0, 0, 1, "text")):
            try:
                fast.run(*bad)
                check(False, f"run{bad} was taken")
            except (TypeError, ValueError):
                check(True, "")


class Net(nn.Module):
    """What networks have: a first layer, residual blocks with group norm, a depthwise layer, an upsampling."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(4, 16) for _ in range(3))
        self.convs = nn.ModuleList((nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.Conv2d(16, 16, 5, padding=2, groups=16),
                                    nn.Conv2d(16, 16, 1)))
        self.up = nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        for norm, conv in zip(self.norms, self.convs):
            x = x + conv(F.silu(norm(x)))
        return self.head(F.relu(self.up(x)).mean((2, 3)))


def test_training():
    """Five steps with PyTorch and with ckconv: the same losses, but for rounding."""
    for dtype, limit, last in ((torch.float64, 1e-10, False), (torch.float32, 2e-5, True)):
        losses = []
        for ours in (False, True):
            torch.manual_seed(3)
            net = Net().to(dtype)
            x, target = torch.randn(8, 3, 16, 16, dtype=dtype), torch.randint(0, 5, (8,))
            if last:
                net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
            step = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
            ck.reset_report()
            with ck.use() if ours else torch.enable_grad():
                for _ in range(5):
                    step.zero_grad()
                    loss = F.cross_entropy(net(x), target)
                    loss.backward()
                    step.step()
                    losses.append(loss.item())
            if ours:
                check("by PyTorch" not in ck.report() and "conv_transpose2d: 5 by ckconv" in ck.report() and
                      "group_norm: 15 by ckconv" in ck.report(), ck.report())
        for i in range(5):
            check(abs(losses[i] - losses[i + 5]) <= limit * abs(losses[i]),
                  f"training in {dtype}, step {i}: {losses[i]} and {losses[i + 5]}")
        check(losses[4] < losses[0], f"training in {dtype}: {losses[:5]}")


def main():
    torch.manual_seed(0)
    with torch.backends.mkldnn.flags(enabled=False):
        for test in (test_convolutions, test_bias_gradients, test_derivatives, test_graphs_of_gradients, test_in_place,
                     test_group_norm, test_what_is_handed_on, test_calls_seen_before, test_ways_to_call, test_training):
            test()
    print(f"torch_binding: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


sys.exit(main())
