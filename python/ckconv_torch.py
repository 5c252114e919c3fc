"""PyTorch on ckconv: convolutions (1D, 2D, 3D, grouped, dilated, transposed, with bias) and group norm, forward
and backward, on the CPU, on NVIDIA and on AMD GPUs. One file; `make python` builds the library that it loads.

    import ckconv_torch
    ckconv_torch.patch()              # all of torch.nn.functional's convolutions and group_norm, so all modules
    ...                               # train as before
    print(ckconv_torch.report())      # what ran here, what was left to PyTorch, and why

`with ckconv_torch.use(): ...` does the same for a block, and conv1d ... conv_transpose3d and group_norm are here
as functions with the signatures of torch.nn.functional. group_norm also takes activation="relu", "gelu", "silu" or
"sigmoid", and weight and bias of shape [N, C], for each sample (adaptive group norm).

Types: float64, float32, float16, bfloat16; both tensors of a convolution have one type. Layouts: channels last and
contiguous as they are, others by their strides; results of 2D and 3D convolutions are channels last if the input or
the weight is. Gradients of gradients work. float32 is multiplied as TF32 where torch.backends.cudnn.allow_tf32 says so,
on NVIDIA GPUs. Plans are made once for each shape and kept; workspace comes from torch's allocator; kernels go to
the current stream and may be captured in a CUDA graph after one run of the same shapes.

What is not taken (other types, sparse or wrapped tensors, tensors of several devices, forward-mode gradients, traced
modules) goes to PyTorch's own function; report() counts it. Not supported: functorch's transforms, vectorised
jacobians, torch.jit.script of patched modules. torch.conv2d and its like, called by that name, stay PyTorch's.

The library: $CKCONV_LIBRARY, else libckconv.so beside this file, else build/libckconv.so of the project.
SPDX-License-Identifier: MIT
"""
import collections
import contextlib
import ctypes as ct
import operator
import os

import torch
import torch.nn.functional as F

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "group_norm",
           "patch", "unpatch", "use", "report", "reset_report", "library"]

# --- ckconv.h in ctypes

I32, I64, F64 = ct.c_int32, ct.c_int64, ct.c_double
FWD, BWD_DATA, BWD_WEIGHT, GROUPNORM_FWD, GROUPNORM_BWD = 1, 2, 3, 5, 6
NHWGC, NGCHW, GKYXC, GKCYX, CHANNEL, STRIDED = 1, 3, 4, 5, 6, 7
PASS, RELU, SIGMOID, SILU, GELU, BIAS = 0, 2, 4, 5, 6, 18
ENGINE_CPU, ENGINE_GPU = 2, 3
TF32 = 11
DTYPES = {torch.float64: 1, torch.float32: 2, torch.float16: 3, torch.bfloat16: 4}
ACTIVATIONS = {None: PASS, "relu": RELU, "sigmoid": SIGMOID, "silu": SILU, "gelu": GELU}


class Tensor(ct.Structure):
    _fields_ = [("dtype", I32), ("layout", I32), ("stride", I64 * 6)]


class ElementOp(ct.Structure):
    _fields_ = [("kind", I32), ("reserved", I32), ("alpha", F64), ("beta", F64)]


class ConvDesc(ct.Structure):
    _fields_ = ([("ndim", I32), ("num_d", I32)] + [(n, I64) for n in "gnkc"] +
                [(n, I64 * 3) for n in ("filter", "input", "stride", "dilation", "pad_lo", "pad_hi")] +
                [(n, Tensor) for n in ("in_", "wei", "out")] +
                [(n, I32) for n in ("compute_in", "compute_wei", "compute_out", "reserved")] +
                [(n, ElementOp) for n in ("op_in", "op_wei", "op_out")] + [("d", Tensor * 4)])


class GroupnormDesc(ct.Structure):
    _fields_ = ([("ndim", I32), ("param_dtype", I32)] + [(n, I64) for n in "gnc"] +
                [("input", I64 * 3), ("eps", F64)] + [(n, Tensor) for n in ("in_", "out", "din")] +
                [("act", I32), ("param_per_image", I32), ("reserved", I32 * 2)])


class Args(ct.Structure):
    _fields_ = [(n, ct.c_void_p) for n in (
        "in_ wei dout d0 d1 d2 d3 wei1 scale shift gamma beta saved_mean saved_inv_std out din dwei mid mean inv_std "
        "dgamma dbeta").split()]


class Options(ct.Structure):
    _fields_ = [("engine", I32), ("threads", I32), ("instance", ct.c_char_p), ("max_workspace", I64),
                ("split_k", I32), ("reserved", I32 * 3)]


class Plan(ct.Structure):  # the public members, and room for the rest
    _fields_ = [("magic", ct.c_uint32), ("version", ct.c_uint32), ("op", I32), ("engine", I32), ("instance", I32),
                ("split_k", I32), ("workspace_bytes", I64), ("grid", I64 * 3), ("block", I32 * 3), ("launches", I32),
                ("flop", I64), ("bytes", I64), ("rest", ct.c_char * 4096)]


class Error(ct.Structure):
    _fields_ = [("status", I32), ("text", ct.c_char * 252)]


_library = None


def library():
    """The loaded library (ctypes.CDLL); loads it on first use."""
    global _library
    if _library is None:
        here = os.path.dirname(os.path.abspath(__file__))
        asked = os.environ.get("CKCONV_LIBRARY")
        places = [asked] if asked else [os.path.join(here, "libckconv.so"),
                                        os.path.join(here, "..", "build", "libckconv.so")]
        for place in places:
            if os.path.exists(place):
                _library = ct.CDLL(place)
                _library.ckconv_instance_name.restype = ct.c_char_p
                return _library
        raise OSError("there is no " + " or ".join(places) + (" (CKCONV_LIBRARY)" if asked else "") +
                      ": run `make python`, or set CKCONV_LIBRARY to the library's path")
    return _library


# --- Plans, one for each problem and device

MOST_PLANS = 4096  # the longest unused ones are dropped: a plan has some 4 KB
_plans = collections.OrderedDict()


def _plan(key, call, op, desc, device):
    """The plan of a problem, made once. key: all that desc was made of."""
    plan = _plans.get(key)
    if plan is not None:
        try:
            _plans.move_to_end(key)
        except KeyError:  # another thread dropped it
            pass
    else:
        plan, error, options = Plan(), Error(), Options()
        options.engine = ENGINE_GPU if device.type == "cuda" else ENGINE_CPU
        options.threads = 0 if device.type == "cuda" else torch.get_num_threads()
        status = call(ct.byref(plan), I32(op), ct.byref(desc()), ct.byref(options), None, ct.byref(error))
        if status:
            raise RuntimeError("ckconv: " + error.text.decode())
        _plans[key] = plan
        if len(_plans) > MOST_PLANS:
            _plans.popitem(last=False)
    return plan


def _place(device):
    """What a plan depends on beside its problem."""
    return device.index if device.type == "cuda" else -torch.get_num_threads()


_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # without an object for it


def _stream(device):
    if device.type != "cuda":
        return None
    return _raw_stream(device.index) if _raw_stream else torch.cuda.current_stream(device).cuda_stream


def _run(plan, args, device):
    size, place = plan.workspace_bytes, None
    if size:
        workspace = torch.empty(size, dtype=torch.uint8, device=device)
        place = workspace.data_ptr()
    error = Error()
    if library().ckconv_run(ct.byref(plan), ct.byref(args), ct.c_void_p(place), ct.c_size_t(size),
                            ct.c_void_p(_stream(device)), ct.byref(error)):
        raise RuntimeError("ckconv: " + error.text.decode())


_nothing = contextlib.nullcontext()


def _guard(device):
    """The plan's GPU must be the current one."""
    if device.type != "cuda" or torch.cuda.current_device() == device.index:
        return _nothing
    return torch.cuda.device(device)


# What was found out about tensors that looked the same: what a call takes then is a look into a dictionary. As many as
# there are plans; when full, they begin anew.

_prepared = {}


def _look(t):
    """All that matters of a tensor but its numbers."""
    return None if t is None else (t.shape, t.stride(), t.dtype, t.device, t.is_neg(), t.data_ptr() % 16 == 0)


def _prepare(key, value):
    if len(_prepared) >= MOST_PLANS:
        _prepared.clear()
    _prepared[key] = value


# --- Tensors: [N, C, spatial] and [K, C / groups, filter]

def _is_last(t):
    """Do t's bytes lie channels last, without gaps?"""
    size, stride, expected = t.shape, t.stride(), 1
    for dim in (1, *range(t.dim() - 1, 1, -1), 0):
        if size[dim] != 1 and stride[dim] != expected:
            return False
        expected *= size[dim]
    return True


def _dense(t, last):
    """t as kernels read it well: neighbours lie along the channels or the last axis, no element stands for several, and
    on a GPU it begins at 16 bytes. Else a copy, channels last or not."""
    t = t.resolve_neg()
    strides = [s for s, n in zip(t.stride(), t.shape) if n > 1]
    if 0 in strides or (strides and 1 not in (t.stride(1), t.stride(-1))) or (t.is_cuda and t.data_ptr() % 16):
        return _blank(t.shape, t, last).copy_(t)
    return t


def _blank(shape, like, last):
    """An empty tensor, channels last or not."""
    if not last:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    strides, step = [0] * len(shape), 1
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return torch.empty_strided(tuple(shape), strides, dtype=like.dtype, device=like.device)


def _layout(t, groups, weights=False):
    """(layout, strides) as a description has them."""
    if t.is_contiguous():
        return (GKCYX if weights else NGCHW), ()
    if _is_last(t):
        return (GKYXC if weights else NHWGC), ()
    s = t.stride()
    return STRIDED, (s[0] * (t.shape[0] // groups), *s) if weights else (s[1] * (t.shape[1] // groups), *s)


def _describe(field, dtype, place):
    field.dtype, field.layout = dtype, place[0]
    for i, s in enumerate(place[1]):
        field.stride[i] = max(s, 1)


# --- Convolution. One differentiable function for its three operations, each of which is the gradient of the others:
# out = fwd(in, wei), din = bwd_data(dout, wei), dwei = bwd_weight(in, dout).

Geometry = collections.namedtuple("Geometry", "groups stride dilation pad_lo pad_hi input filter last wei_last tf32")


def _conv_desc(op, g, n, k, c, dtypes, places):
    d = ConvDesc(ndim=len(g.input), g=g.groups, n=n, k=k, c=c)
    for name in ("filter", "input", "stride", "dilation", "pad_lo", "pad_hi"):
        for i, v in enumerate(getattr(g, name)):
            getattr(d, name)[i] = v
    for field, dtype, place in zip((d.in_, d.wei, d.out), dtypes, places):
        _describe(field, dtype, place)
    if g.tf32:
        d.compute_in = d.compute_wei = d.compute_out = TF32
    if dtypes[3]:
        d.num_d = 1
        (d.op_out if op == FWD else d.op_in).kind = BIAS
        d.d[0].dtype, d.d[0].layout = dtypes[3], CHANNEL
    return d


NAMES = {FWD: ("in_", "wei", "out"), BWD_DATA: ("dout", "wei", "din"), BWD_WEIGHT: ("in_", "dout", "dwei")}


def _conv(op, a, b, bias, g):
    """fwd: a in, b wei; bwd_data: a dout, b wei; bwd_weight: a in, b dout. bias: of the written channels, or None."""
    device = a.device
    key = (op, g, _look(a), _look(b), _look(bias), _place(device))
    found = _prepared.get(key)
    if found is None:
        return _conv_first(op, a, b, bias, g, key)
    plan, shape, strides = found
    written = torch.empty_strided(shape, strides, dtype=a.dtype, device=device)
    args = Args()
    for name, t in zip(NAMES[op], (a, b, written)):
        setattr(args, name, t.data_ptr())
    if bias is not None:
        args.d0 = bias.data_ptr()
    with _guard(device):
        _run(plan, args, device)
    return written


def _conv_first(op, a, b, bias, g, look):
    """The same of tensors that look as none did before."""
    given = a, b, bias
    a = _dense(a, g.last)
    b = _dense(b, g.last if op == BWD_WEIGHT else g.wei_last)
    n, device = a.shape[0], a.device
    if op == BWD_WEIGHT:
        k, c = b.shape[1], a.shape[1] // g.groups
        w = _blank((k, c, *g.filter), a, g.wei_last)
        x, y, written = a, b, w
    else:
        k, c, w = b.shape[0], b.shape[1], b
        if op == FWD:
            out = [(i + lo + hi - (f - 1) * d - 1) // s + 1 for i, lo, hi, f, d, s in
                   zip(g.input, g.pad_lo, g.pad_hi, g.filter, g.dilation, g.stride)]
            x, y = a, _blank((n, k, *out), a, g.last)
            written = y
        else:
            x, y = _blank((n, c * g.groups, *g.input), a, g.last), a
            written = x
    code = DTYPES[a.dtype]
    places = (_layout(x, g.groups), _layout(w, g.groups, True), _layout(y, g.groups))
    codes = (code, code, code, DTYPES[bias.dtype] if bias is not None else 0)
    key = (op, g, n, k, c, codes, places, _place(device))
    with _guard(device):
        plan = _plan(key, library().ckconv_plan_conv, op,
                     lambda: _conv_desc(op, g, n, k // g.groups, c, codes, places), device)
        args = Args()
        for name, t in zip(NAMES[op], (a, b, written)):
            setattr(args, name, t.data_ptr())
        if bias is not None:
            bias = bias.resolve_neg().contiguous()
            args.d0 = bias.data_ptr()
        _run(plan, args, device)
    if all(t is u for t, u in zip(given, (a, b, bias))):  # no copies were made
        _prepare(look, (plan, tuple(written.shape), written.stride()))
    return written


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, op, a, b, bias, g):
        ctx.op, ctx.g = op, g
        ctx.save_for_backward(a, b)
        return _conv(op, a, b, bias, g)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        op, g, need = ctx.op, ctx.g, ctx.needs_input_grad
        da = db = dbias = None
        if op == FWD:  # in, wei
            da = _Conv.apply(BWD_DATA, grad, b, None, g) if need[1] else None
            db = _Conv.apply(BWD_WEIGHT, a, grad, None, g) if need[2] else None
        elif op == BWD_DATA:  # dout, wei
            da = _Conv.apply(FWD, grad, b, None, g) if need[1] else None
            db = _Conv.apply(BWD_WEIGHT, grad, a, None, g) if need[2] else None
        else:  # in, dout
            da = _Conv.apply(BWD_DATA, b, grad, None, g) if need[1] else None
            db = _Conv.apply(FWD, a, grad, None, g) if need[2] else None
        if need[3]:
            wide = torch.float32 if grad.dtype in (torch.float16, torch.bfloat16) else grad.dtype
            dbias = grad.sum([d for d in range(grad.dim()) if d != 1], dtype=wide).to(grad.dtype)
        return None, da, db, dbias, None


# --- Group norm

def _norm_desc(groups, n, c, space, eps, code, param, each, place, act):
    d = GroupnormDesc(ndim=len(space), param_dtype=param, g=groups, n=n, c=c, eps=eps, act=act, param_per_image=each)
    for i, v in enumerate(space):
        d.input[i] = v
    for field, where in zip((d.in_, d.out, d.din), place):
        _describe(field, code, where)
    return d


def _torch_norm(x, groups, gamma, beta, eps, act):
    """The same of PyTorch's functions. gamma, beta: [C], [N, C] or None."""
    each = any(t is not None and t.dim() == 2 for t in (gamma, beta))
    y = _torch["group_norm"](x, groups, *(None, None) if each else (gamma, beta), eps)
    if each:
        gamma, beta = (t if t is None else t.reshape(-1, x.shape[1], *[1] * (x.dim() - 2)).to(y.dtype)
                       for t in (gamma, beta))
        y = y if gamma is None else y * gamma
        y = y if beta is None else y + beta
    return {PASS: lambda t: t, RELU: F.relu, SIGMOID: torch.sigmoid, SILU: F.silu, GELU: F.gelu}[act](y)


class _GroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, beta, groups, eps, act):
        last = not x.is_contiguous() and _is_last(x)
        y = _blank(x.shape, x, last)
        stat = torch.float64 if x.dtype == torch.float64 else torch.float32
        mean, inv_std = (torch.empty(x.shape[0] * groups, dtype=stat, device=x.device) for _ in range(2))
        ctx.facts = groups, eps, act, last
        ctx.save_for_backward(x, gamma, beta, mean, inv_std)
        plan, args = _GroupNorm.prepare(GROUPNORM_FWD, x, gamma, beta, y, None, ctx.facts)
        args.out, args.mean, args.inv_std = y.data_ptr(), mean.data_ptr(), inv_std.data_ptr()
        with _guard(x.device):
            _run(plan, args, x.device)
        return y

    @staticmethod
    def prepare(op, x, gamma, beta, y, din, facts):
        groups, eps, act, _ = facts
        code = DTYPES[x.dtype]
        given = gamma if gamma is not None else beta
        param, each = (code, 0) if given is None else (DTYPES[given.dtype], int(given.dim() == 2))
        places = tuple(_layout(t, groups) for t in (x, y, din if din is not None else x))
        n, c, space = x.shape[0], x.shape[1] // groups, tuple(x.shape[2:])
        key = (op, groups, n, c, space, eps, code, param, each, places, act, _place(x.device))
        with _guard(x.device):
            plan = _plan(key, library().ckconv_plan_groupnorm, op,
                         lambda: _norm_desc(groups, n, c, space, eps, code, param, each, places, act), x.device)
        args = Args()
        args.in_ = x.data_ptr()
        args.gamma = gamma.data_ptr() if gamma is not None else None
        args.beta = beta.data_ptr() if beta is not None else None
        return plan, args

    @staticmethod
    def backward(ctx, dy):
        x, gamma, beta, mean, inv_std = ctx.saved_tensors
        groups, eps, act, last = ctx.facts
        need = ctx.needs_input_grad
        if torch.is_grad_enabled():  # create_graph: a gradient of this gradient is wanted: PyTorch's formulas
            with torch.enable_grad():
                y = _torch_norm(x, groups, gamma, beta, eps, act)
                wanted = [t for t, n in zip((x, gamma, beta), need) if n]
                given = iter(torch.autograd.grad(y, wanted, dy, create_graph=True))
            return (*(next(given) if n else None for n in need[:3]), None, None, None)
        dy = _dense(dy, last)
        dx = _blank(x.shape, x, last) if need[0] else None
        dgamma = torch.empty_like(gamma) if gamma is not None and need[1] else None
        dbeta = torch.empty_like(beta) if beta is not None and need[2] else None
        plan, args = _GroupNorm.prepare(GROUPNORM_BWD, x, gamma, beta, dy, dx, ctx.facts)
        args.dout, args.saved_mean, args.saved_inv_std = dy.data_ptr(), mean.data_ptr(), inv_std.data_ptr()
        for name, t in (("din", dx), ("dgamma", dgamma), ("dbeta", dbeta)):
            setattr(args, name, t.data_ptr() if t is not None else None)
        with _guard(x.device):
            _run(plan, args, x.device)
        return dx, dgamma, dbeta, None, None, None


# --- What PyTorch's functions take

_counts = collections.Counter()
_torch = {}  # PyTorch's own functions, by name


def _reason(*tensors):
    """Why ckconv does not take these (None among them is left out), or None."""
    first = tensors[0]
    if torch.jit.is_tracing() or torch.jit.is_scripting():
        return "a traced module"
    for t in tensors:
        if t is None:
            continue
        if _in_forward_mode() and torch.autograd.forward_ad.unpack_dual(t).tangent is not None:
            return "forward-mode gradients"
        if type(t) not in (torch.Tensor, torch.nn.Parameter):
            return "tensors of type " + type(t).__name__
        if t.dtype not in DTYPES:
            return str(t.dtype).replace("torch.", "")
        if t.device != first.device or t.device.type not in ("cpu", "cuda"):
            return "device " + str(t.device)
        if t.layout != torch.strided:
            return "layout " + str(t.layout)
    return None


def _in_forward_mode():
    """Within torch.autograd.forward_ad.dual_level()?"""
    return getattr(torch.autograd.forward_ad, "_current_level", -1) >= 0


def _fall_back(name, why, *args, **kwargs):
    _counts[name, why] += 1
    return _torch[name](*args, **kwargs)


def _several(value, ndim, what):
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(values) == 1:
        values *= ndim
    if len(values) != ndim:
        raise RuntimeError(f"{what} has {len(values)} numbers: must have 1 or {ndim}")
    return tuple(operator.index(v) for v in values)


def _autocast(x, *others):
    """Under autocast all but float64 in its type, as PyTorch casts for a convolution."""
    on = torch.is_autocast_enabled() if x.is_cuda else torch.is_autocast_cpu_enabled()
    if not on:
        return (x, *others)
    dtype = torch.get_autocast_gpu_dtype() if x.is_cuda else torch.get_autocast_cpu_dtype()
    return tuple(t.to(dtype) if t is not None and t.dtype != torch.float64 else t for t in (x, *others))


def _tf32(x):
    return x.is_cuda and x.dtype == torch.float32 and torch.version.hip is None and torch.backends.cudnn.allow_tf32


def _any_last(x, w):
    """Does PyTorch make the result channels last? If one of both is."""
    return x.dim() > 3 and ((not x.is_contiguous() and _is_last(x)) or (not w.is_contiguous() and _is_last(w)))


def _wrong(x, w, bias, channels, outputs, groups, stride, dilation):
    """Does PyTorch refuse these?"""
    return x.dtype != w.dtype or (bias is not None and (bias.dtype != x.dtype or tuple(bias.shape) != (outputs,))) or \
        groups < 1 or w.shape[0] % groups or x.shape[1] != channels or 0 in w.shape or min(stride + dilation) < 1


def _convolution(name, ndim, x, w, bias, stride, padding, dilation, groups):
    given = (name, x, w, bias, stride, padding, dilation, groups)
    why = _reason(x, w, bias)
    look = None
    if why is None and not torch.is_autocast_enabled() and not torch.is_autocast_cpu_enabled() and \
            type(groups) is int and _plain(stride) and _plain(padding) and _plain(dilation):
        look = (name, _look(x), _look(w), _look(bias), stride, padding, dilation, groups,
                torch.backends.cudnn.allow_tf32)
        g = _prepared.get(look)
        if g is not None:
            _counts[name, None] += 1
            return _apply(FWD, x, w, bias, g)
    refused = "what PyTorch refuses"
    if why is None and (w.dim() != ndim + 2 or x.dim() not in (ndim + 1, ndim + 2) or
                        (isinstance(padding, str) and padding not in ("same", "valid"))):
        why = refused
    if why is not None:
        return _fall_back(name, why, *given[1:])
    x, w, bias = _autocast(x, w, bias)
    batch = x.dim() == ndim + 2
    x = x if batch else x.unsqueeze(0)
    stride, dilation = _several(stride, ndim, "stride"), _several(dilation, ndim, "dilation")
    if _wrong(x, w, bias, w.shape[1] * groups, w.shape[0], groups, stride, dilation) or \
            (padding == "same" and max(stride) > 1):
        return _fall_back(name, refused, *given[1:])
    if padding == "same":
        total = [d * (f - 1) for d, f in zip(dilation, w.shape[2:])]
        low = tuple(t // 2 for t in total)
        high = tuple(t - l for t, l in zip(total, low))
    else:
        low = high = (0,) * ndim if padding == "valid" else _several(padding, ndim, "padding")
    if min(low) < 0 or any(i + l + h < (f - 1) * d + 1 for i, l, h, f, d in
                           zip(x.shape[2:], low, high, w.shape[2:], dilation)):
        return _fall_back(name, refused, *given[1:])
    g = Geometry(groups, stride, dilation, low, high, tuple(x.shape[2:]), tuple(w.shape[2:]), _any_last(x, w),
                 not w.is_contiguous() and _is_last(w), _tf32(x))
    _counts[name, None] += 1
    if batch and look is not None:
        _prepare(look, g)
    y = _apply(FWD, x, w, bias, g)
    return y if batch else y.squeeze(0)


def _plain(value):
    """May it be part of a key? 1.0 would be found as 1, which PyTorch does not take for it."""
    kind = type(value)
    return kind is int or kind is str or (kind is tuple and all(type(v) is int for v in value))


def _apply(op, x, w, bias, g):
    """Without what a gradient needs where none is wanted."""
    if torch.is_grad_enabled() and (x.requires_grad or w.requires_grad or (bias is not None and bias.requires_grad)):
        return _Conv.apply(op, x, w, bias, g)
    return _conv(op, x, w, bias, g)


def _transposed(name, ndim, x, w, bias, stride, padding, output_padding, groups, dilation):
    given = (x, w, bias, stride, padding, output_padding, groups, dilation)
    why = _reason(x, w, bias)
    refused = "what PyTorch refuses"
    if why is None and (w.dim() != ndim + 2 or x.dim() not in (ndim + 1, ndim + 2)):
        why = refused
    if why is None and not x.is_cuda and torch.is_autocast_cpu_enabled():
        why = "autocast on the CPU"
    if why is not None:
        return _fall_back(name, why, *given)
    x, w, bias = _autocast(x, w, bias)
    batch = x.dim() == ndim + 2
    x = x if batch else x.unsqueeze(0)
    stride, dilation = _several(stride, ndim, "stride"), _several(dilation, ndim, "dilation")
    padding, more = _several(padding, ndim, "padding"), _several(output_padding, ndim, "output_padding")
    size = tuple((i - 1) * s - 2 * p + d * (f - 1) + m + 1 for i, s, p, d, f, m in
                 zip(x.shape[2:], stride, padding, dilation, w.shape[2:], more))
    if _wrong(x, w, bias, w.shape[0], w.shape[1] * groups, groups, stride, dilation) or min(size) < 1 or \
            min(padding + more) < 0 or any(m >= max(s, d) for m, s, d in zip(more, stride, dilation)):
        return _fall_back(name, refused, *given)
    if any(m >= s for m, s in zip(more, stride)):  # the convolution of that size has more outputs than x
        return _fall_back(name, "output_padding of stride or more", *given)
    g = Geometry(groups, stride, dilation, padding, padding, size, tuple(w.shape[2:]), _any_last(x, w),
                 not w.is_contiguous() and _is_last(w), _tf32(x))
    _counts[name, None] += 1
    y = _apply(BWD_DATA, x, w, bias, g)
    return y if batch else y.squeeze(0)


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolution("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolution("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolution("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, activation=None):
    """torch.nn.functional.group_norm; activation: None, "relu", "gelu" (with erf), "silu" or "sigmoid", in the same
    kernel. weight and bias may also be [N, C]. What diffusion models call scale and shift, norm(x) * (1 + scale) +
    shift, is weight = w * (1 + scale), bias = b * (1 + scale) + shift with the norm's own w and b."""
    act = ACTIVATIONS[activation]
    why = _reason(input, weight, bias)
    if why is None and not (3 <= input.dim() <= 5):
        why = f"{input.dim()} dimensions"
    if why is None and (num_groups < 1 or input.shape[1] % num_groups or eps <= 0 or input.numel() == 0 or any(
            t is not None and t.shape not in (input.shape[1:2], input.shape[:2]) for t in (weight, bias))):
        why = "shapes that PyTorch refuses, empty tensors, or eps of 0"
    if why is None and input.is_cuda and torch.is_autocast_enabled():
        dtype = torch.float64 if input.dtype == torch.float64 else torch.float32  # as PyTorch's autocast does
        input, weight, bias = (t.to(dtype) if t is not None else None for t in (input, weight, bias))
    if why is None and weight is not None and bias is not None and weight.dtype != bias.dtype:
        why = "weight and bias of different types"
    if why is None:
        for t in (weight, bias):
            if t is not None and t.dtype not in (input.dtype, torch.float32):
                why = f"{input.dtype} with parameters of {t.dtype}".replace("torch.", "")
    if why is not None:
        _counts["group_norm", why] += 1
        return _torch_norm(input, num_groups, weight, bias, eps, act)
    _counts["group_norm", None] += 1
    if any(t is not None and t.dim() == 2 for t in (weight, bias)):  # one alone: the other for each sample, too
        weight, bias = (t if t is None else t.expand(input.shape[:2]) for t in (weight, bias))
    weight, bias = (t.resolve_neg().contiguous() if t is not None else None for t in (weight, bias))
    input = _dense(input, not input.is_contiguous() and _is_last(input))
    return _GroupNorm.apply(input, weight, bias, num_groups, eps, act)


# --- PyTorch's functions replaced

_names = __all__[:7]
for _name in _names:
    _torch[_name] = getattr(F, _name)


def patch():
    """Send torch.nn.functional's convolutions and group_norm to ckconv."""
    library()
    for name in _names:
        setattr(F, name, globals()[name])


def unpatch():
    """And back to PyTorch."""
    for name in _names:
        setattr(F, name, _torch[name])


@contextlib.contextmanager
def use():
    """patch() within a block."""
    before = {name: getattr(F, name) for name in _names}
    patch()
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(F, name, function)


def reset_report():
    _counts.clear()


def report():
    """Calls since the start or reset_report(): by function, those left to PyTorch with their reason."""
    lines = []
    for (name, why), count in sorted(_counts.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        lines.append(f"{name}: {count} " + ("by ckconv" if why is None else "by PyTorch: " + why))
    return "\n".join(lines) if lines else "no convolution or group norm yet"
