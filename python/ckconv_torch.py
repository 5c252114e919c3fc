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

What is not taken (other types, sparse or wrapped tensors, tensors of several devices, forward-mode gradients,
functorch's transforms, traced modules) goes to PyTorch's own function; report() counts it. Not supported:
torch.jit.script of patched modules. torch.conv2d and its like, called by that name, stay PyTorch's.

From PyTorch 2.4 on the operations are operators, too, torch.ops.ckconv.*: torch.compile (fullgraph=True) and
torch.export put them into their graphs, whose tensors keep the strides that they have without. report() counts
them by their names; what a compiled graph left to PyTorch, it does not see.

The library: $CKCONV_LIBRARY, else libckconv.so beside this file, else build/libckconv.so of the project. Beside it may
be _ckconv_fast.abi3.so (`make python`), which calls it in less time than ctypes.
SPDX-License-Identifier: MIT
"""
import collections
import contextlib
import ctypes as ct
import importlib.machinery
import importlib.util
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
                [(n, I32) for n in ("compute_in", "compute_wei", "compute_out", "dbias")] +
                [(n, ElementOp) for n in ("op_in", "op_wei", "op_out")] + [("d", Tensor * 4)])


class GroupnormDesc(ct.Structure):
    _fields_ = ([("ndim", I32), ("param_dtype", I32)] + [(n, I64) for n in "gnc"] +
                [("input", I64 * 3), ("eps", F64)] + [(n, Tensor) for n in ("in_", "out", "din")] +
                [("act", I32), ("param_per_image", I32), ("reserved", I32 * 2)])


class Args(ct.Structure):
    _fields_ = [(n, ct.c_void_p) for n in (
        "in_ wei dout d0 d1 d2 d3 wei1 scale shift gamma beta saved_mean saved_inv_std out din dwei mid mean inv_std "
        "dgamma dbeta dbias").split()]


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
_fast = None  # the module _ckconv_fast, where it was built


def library():
    """The loaded library (ctypes.CDLL); loads it on first use."""
    global _library, _fast
    if _library is None:
        here = os.path.dirname(os.path.abspath(__file__))
        asked = os.environ.get("CKCONV_LIBRARY")
        places = [asked] if asked else [os.path.join(here, "libckconv.so"),
                                        os.path.join(here, "..", "build", "libckconv.so")]
        for place in places:
            if os.path.exists(place):
                found = ct.CDLL(place)
                found.ckconv_instance_name.restype = ct.c_char_p
                _fast = _load_fast(os.path.dirname(os.path.abspath(place)))
                _library = found
                return _library
        raise OSError("there is no " + " or ".join(places) + (" (CKCONV_LIBRARY)" if asked else "") +
                      ": run `make python`, or set CKCONV_LIBRARY to the library's path")
    return _library


def _load_fast(folder):
    """The module _ckconv_fast of that folder; None without it, where this Python cannot load it, or with
    CKCONV_FAST=0."""
    path = os.path.join(folder, "_ckconv_fast.abi3.so")
    if os.environ.get("CKCONV_FAST") == "0" or not os.path.exists(path):
        return None
    try:
        loader = importlib.machinery.ExtensionFileLoader("_ckconv_fast", path)
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("_ckconv_fast", loader))
        loader.exec_module(module)
    except ImportError:
        return None
    return module if module.ARGS_BYTES == ct.sizeof(Args) else None


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
        with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
            status = call(ct.byref(plan), I32(op), ct.byref(desc()), ct.byref(options), None, ct.byref(error))
        if status:
            raise RuntimeError("ckconv: " + error.text.decode())
        _plans[key] = plan
        if len(_plans) > MOST_PLANS:
            _plans.popitem(last=False)
    return plan


_threads = torch.get_num_threads  # of which the CPU's plans depend

# torch's own functions, without the objects that their public forms make
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or \
    (lambda index: torch.cuda.current_stream(index).cuda_stream)
_current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
_empty_like = torch.empty_like


def _shell(t):
    """A tensor like t for torch.empty_like, without memory; None if empty_like does not keep t's strides."""
    shell = torch.empty_like(t)
    if shell.stride() != t.stride():
        return None
    (shell.untyped_storage() if hasattr(shell, "untyped_storage") else shell.storage()).resize_(0)
    return shell


class _Launch:
    """A plan with all that its calls have in common: what is left of a call are the addresses of its tensors."""
    __slots__ = ("plan", "prepared", "run", "workspace", "index", "mask", "written")

    def __init__(self, plan, members, device, written=None):
        """members: the names in Args of a call's tensors, in their order; written: the tensor that is written."""
        slots = bytes(getattr(Args, name).offset // ct.sizeof(ct.c_void_p) for name in members)
        size, function = plan.workspace_bytes, library().ckconv_run
        self.plan = plan  # whose address is kept
        if _fast:
            self.run = _fast.run
            self.prepared = _fast.prepare(ct.cast(function, ct.c_void_p).value, ct.addressof(plan), size, slots)
        else:
            self.run, self.prepared = _run_slowly, (function, plan, size, slots)
        self.workspace = _shell(torch.empty(size, dtype=torch.uint8, device=device)) if size else None
        self.index = device.index if device.type == "cuda" else None
        self.mask = 15 if device.type == "cuda" else 0  # of addresses: kernels of GPUs read 16 bytes at a time
        self.written = _shell(written) if written is not None else None

    def __call__(self, *addresses):
        """Into the current stream of the tensors' device."""
        index, workspace, place, stream = self.index, self.workspace, 0, 0
        if index is not None:
            if _current_device() != index:  # which the plan's GPU must be
                with torch.cuda.device(index):
                    return self(*addresses)
            stream = _raw_stream(index)
        if workspace is not None:
            workspace = _empty_like(workspace)
            place = workspace.data_ptr()
        wrong = self.run(self.prepared, place, stream, *addresses)
        if wrong is not None:
            raise RuntimeError("ckconv: " + wrong)


def _run_slowly(prepared, workspace, stream, *addresses):
    """_ckconv_fast's run."""
    function, plan, size, slots = prepared
    args, error = Args(), Error()
    members = (ct.c_void_p * (ct.sizeof(Args) // ct.sizeof(ct.c_void_p))).from_buffer(args)
    for slot, address in zip(slots, addresses):
        members[slot] = address
    status = function(ct.byref(plan), ct.byref(args), ct.c_void_p(workspace), ct.c_size_t(size),
                      ct.c_void_p(stream), ct.byref(error))
    return error.text.decode() if status else None


# What was found out about tensors that looked the same: what a call takes then is a look into a dictionary. As many as
# there are plans; when full, they begin anew.

_launches = {}


def _look(t):
    """All that matters of a tensor but its numbers and its place in memory."""
    return None if t is None else (t.shape, t.stride(), t.dtype, t.device, t.is_neg())


def _keep(known, key, value):
    if len(known) >= MOST_PLANS:
        known.clear()
    known[key] = value


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


def _contiguous(*vectors):
    return tuple(t.resolve_neg().contiguous() if t is not None else None for t in vectors)


def _describe(field, dtype, place):
    field.dtype, field.layout = dtype, place[0]
    for i, s in enumerate(place[1]):
        field.stride[i] = max(s, 1)


# --- Convolution. One differentiable function for its three operations, each of which is the gradient of the others:
# out = fwd(in, wei), din = bwd_data(dout, wei), dwei = bwd_weight(in, dout).

GEOMETRY = "input filter stride dilation pad_lo pad_hi groups last wei_last tf32"


class Geometry(collections.namedtuple("Geometry", GEOMETRY)):
    """What a convolution is beside its tensors: equal ones are the same object (_geometry), which is found fast."""
    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__


_geometries = {}


def _geometry(*numbers):
    g = _geometries.get(numbers)
    if g is None:
        g = Geometry(*numbers)
        _keep(_geometries, numbers, g)
    return g


def _conv_desc(op, g, n, k, c, dtypes, places):
    d = ConvDesc(ndim=len(g.input), g=g.groups, n=n, k=k, c=c)
    for name in ("filter", "input", "stride", "dilation", "pad_lo", "pad_hi"):
        for i, v in enumerate(getattr(g, name)):
            getattr(d, name)[i] = v
    for field, dtype, place in zip((d.in_, d.wei, d.out), dtypes, places):
        _describe(field, dtype, place)
    if g.tf32:
        d.compute_in = d.compute_wei = d.compute_out = TF32
    d.dbias = dtypes[4]
    if dtypes[3]:
        d.num_d = 1
        (d.op_out if op == FWD else d.op_in).kind = BIAS
        d.d[0].dtype, d.d[0].layout = dtypes[3], CHANNEL
    return d


NAMES = {FWD: ("in_", "wei", "out"), BWD_DATA: ("dout", "wei", "din"), BWD_WEIGHT: ("in_", "dout", "dwei")}


def _written_shape(op, a, b, g):
    """The shape of what op writes."""
    if op == FWD:
        return (a.shape[0], b.shape[0], *((i + lo + hi - (f - 1) * d - 1) // s + 1 for i, lo, hi, f, d, s in
                                          zip(g.input, g.pad_lo, g.pad_hi, g.filter, g.dilation, g.stride)))
    if op == BWD_DATA:
        return (a.shape[0], b.shape[1] * g.groups, *g.input)
    return (b.shape[1], a.shape[1] // g.groups, *g.filter)


def _conv(op, a, b, bias, g):
    """fwd: a in, b wei; bwd_data: a dout, b wei; bwd_weight: a in, b dout. bias: of the written channels, or None."""
    key = _conv_key(op, a, b, bias, g)
    launch = _launches.get(key)
    return _conv_first(op, a, b, bias, g, key) if launch is None else _conv_again(launch, op, a, b, bias, g)


def _conv_key(op, a, b, bias, g):
    return (op, g, a.shape, a.stride(), a.dtype, a.device, a.is_neg(), b.shape, b.stride(), b.dtype, b.is_neg(),
            _look(bias), _threads())


def _conv_again(launch, op, a, b, bias, g):
    """The same with the launch of tensors that look as these do."""
    p, q = a.data_ptr(), b.data_ptr()
    if (p | q) & launch.mask:
        return _conv_first(op, a, b, bias, g, None)
    written = _empty_like(launch.written)
    if bias is None:
        launch(p, q, written.data_ptr())
    else:
        launch(p, q, written.data_ptr(), bias.data_ptr())
    return written


def _conv_sums(a, b, g, sums):
    """bwd_weight with the gradient of a bias: (dwei, dbias), or (None, dbias) where sums is 2, not 1."""
    key = (sums, *_conv_key(BWD_WEIGHT, a, b, None, g))
    launch = _launches.get(key)
    if launch is None:
        return _conv_first(BWD_WEIGHT, a, b, None, g, key, sums)
    p, q = a.data_ptr(), b.data_ptr()
    if (p | q) & launch.mask:
        return _conv_first(BWD_WEIGHT, a, b, None, g, None, sums)
    written = _empty_like(launch.written) if sums == 1 else None
    dbias = b.new_empty(b.shape[1])
    launch(p, q, _address(written), dbias.data_ptr())
    return written, dbias


def _conv_first(op, a, b, bias, g, look, sums=0):
    """The same of tensors that look as none did before; look: how, or None if that is not to be kept."""
    given = a, b, bias
    a = _dense(a, g.last)
    b = _dense(b, g.last if op == BWD_WEIGHT else g.wei_last)
    if bias is not None:
        bias = bias.resolve_neg().contiguous()
    written = _blank(_written_shape(op, a, b, g), a, g.wei_last if op == BWD_WEIGHT else g.last)
    x, w, y = (a, b, written) if op == FWD else (written, b, a) if op == BWD_DATA else (a, written, b)
    code = DTYPES[a.dtype]
    places = (_layout(x, g.groups), _layout(w, g.groups, True), _layout(y, g.groups))
    codes = (code, code, code, DTYPES[bias.dtype] if bias is not None else 0, code if sums else 0)
    n, k, c = x.shape[0], w.shape[0], w.shape[1]
    plan = _plan((op, g, n, k, c, codes, places, a.device, _threads()), library().ckconv_plan_conv, op,
                 lambda: _conv_desc(op, g, n, k // g.groups, c, codes, places), a.device)
    dbias = b.new_empty(b.shape[1]) if sums else None
    tensors = [a, b, None if sums == 2 else written, *(t for t in (bias, dbias) if t is not None)]
    launch = _Launch(plan, (*NAMES[op], "dbias" if sums else "d0")[:len(tensors)], a.device, written)
    launch(*(_address(t) for t in tensors))
    if look is not None and launch.written is not None and all(t is u for t, u in zip(given, (a, b, bias))):
        _keep(_launches, look, launch)  # no copies were made
    return (tensors[2], dbias) if sums else written


def _conv_gradients(op, a, b, grad, g, need, conv):
    """Of a, b and the bias of conv(op, a, b, bias, g), as far as needed."""
    da = db = dbias = None
    if op == FWD and need[2] and conv is _conv:  # dbias with dwei, or alone
        da = conv(BWD_DATA, grad, b, None, g) if need[0] else None
        db, dbias = _conv_sums(a, grad, g, 1 if need[1] else 2)
        return da, db, dbias
    if op == FWD:  # in, wei
        da = conv(BWD_DATA, grad, b, None, g) if need[0] else None
        db = conv(BWD_WEIGHT, a, grad, None, g) if need[1] else None
    elif op == BWD_DATA:  # dout, wei
        da = conv(FWD, grad, b, None, g) if need[0] else None
        db = conv(BWD_WEIGHT, grad, a, None, g) if need[1] else None
    else:  # in, dout
        da = conv(BWD_DATA, b, grad, None, g) if need[0] else None
        db = conv(FWD, a, grad, None, g) if need[1] else None
    if need[2]:
        wide = torch.float32 if grad.dtype in (torch.float16, torch.bfloat16) else grad.dtype
        dbias = grad.sum([d for d in range(grad.dim()) if d != 1], dtype=wide).to(grad.dtype)
    return da, db, dbias


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, bias, op, g, launch):
        """launch: that of tensors which look as these do, or None."""
        ctx.facts = op, g
        ctx.save_for_backward(a, b)
        return _conv(op, a, b, bias, g) if launch is None else _conv_again(launch, op, a, b, bias, g)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        op, g = ctx.facts
        conv = _conv_with_gradient if torch.is_grad_enabled() else _conv
        return (*_conv_gradients(op, a, b, grad, g, ctx.needs_input_grad, conv), None, None, None)


def _direct_apply(function):
    """function.apply without what PyTorch 2 does before for functorch's transforms, under which none of this runs."""
    apply = getattr(super(torch.autograd.Function, function), "apply", None)
    return function.apply if apply is None else apply


_conv_apply = _direct_apply(_Conv)


def _conv_with_gradient(op, a, b, bias, g, launch=None):
    """_conv, differentiable, without what a gradient needs where none is wanted."""
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad or (bias is not None and bias.requires_grad)):
        return _conv_apply(a, b, bias, op, g, launch)
    return _conv(op, a, b, bias, g) if launch is None else _conv_again(launch, op, a, b, bias, g)


# --- Group norm

def _norm_desc(groups, n, c, space, eps, code, param, each, place, act):
    d = GroupnormDesc(ndim=len(space), param_dtype=param, g=groups, n=n, c=c, eps=eps, act=act, param_per_image=each)
    for i, v in enumerate(space):
        d.input[i] = v
    for field, where in zip((d.in_, d.out, d.din), place):
        _describe(field, code, where)
    return d


def _norm_launch(op, x, other, gamma, beta, groups, eps, act, din, key, members):
    """The launch of a group norm; other: y or dy; din: dx or None."""
    code = DTYPES[x.dtype]
    given = gamma if gamma is not None else beta
    param, each = (code, 0) if given is None else (DTYPES[given.dtype], int(given.dim() == 2))
    places = tuple(_layout(t, groups) for t in (x, other, din if din is not None else x))
    n, c, space = x.shape[0], x.shape[1] // groups, tuple(x.shape[2:])
    plan = _plan((op, groups, n, c, space, eps, code, param, each, places, act, x.device, _threads()),
                 library().ckconv_plan_groupnorm, op,
                 lambda: _norm_desc(groups, n, c, space, eps, code, param, each, places, act), x.device)
    launch = _Launch(plan, members, x.device, other if op == GROUPNORM_FWD else din)
    _keep(_launches, key, launch)
    return launch


def _address(t):
    return 0 if t is None else t.data_ptr()


NORM_FWD = ("in_", "gamma", "beta", "out", "mean", "inv_std")
NORM_BWD = ("in_", "gamma", "beta", "dout", "saved_mean", "saved_inv_std", "din", "dgamma", "dbeta")


def _norm(x, gamma, beta, groups, eps, act, last, launch=None, save=True):
    """y and, to save, the statistics [2, N * groups]: mean, then 1 / deviation. x: dense; last: is y channels last?"""
    if launch is None:
        key = _norm_key(x, gamma, beta, groups, eps, act, last)
        launch = _launches.get(key)
    y = _empty_like(launch.written) if launch is not None and launch.written is not None else _blank(x.shape, x, last)
    if launch is None:
        launch = _norm_launch(GROUPNORM_FWD, x, y, gamma, beta, groups, eps, act, None, key, NORM_FWD)
    stat = _statistics(x, groups) if save else None
    launch(x.data_ptr(), _address(gamma), _address(beta), y.data_ptr(), *_parts(stat))
    return y, stat


def _norm_key(x, gamma, beta, groups, eps, act, last):
    return GROUPNORM_FWD, groups, eps, act, last, _look(x), _look(gamma), _look(beta), _threads()


def _parts(stat):
    """The addresses of mean and 1 / deviation."""
    if stat is None:
        return 0, 0
    first = stat.data_ptr()
    return first, first + stat.element_size() * stat.shape[1]


def _statistics(x, groups):
    return x.new_empty((2, x.shape[0] * groups), dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)


def _norm_gradients(dy, x, gamma, beta, stat, groups, eps, act, last, need):
    """dx, dgamma, dbeta, as far as needed; x: dense."""
    dy = _dense(dy, last)
    need = tuple(n and t is not None for n, t in zip(need, (x, gamma, beta)))
    key = (GROUPNORM_BWD, groups, eps, act, last, need, _look(dy), _look(x), _look(gamma), _look(beta), _threads())
    launch = _launches.get(key)
    dx = None
    if need[0]:
        dx = _empty_like(launch.written) if launch is not None and launch.written is not None else \
            _blank(x.shape, x, last)
    if launch is None:
        launch = _norm_launch(GROUPNORM_BWD, x, dy, gamma, beta, groups, eps, act, dx, key, NORM_BWD)
    dgamma = _empty_like(gamma) if need[1] else None
    dbeta = _empty_like(beta) if need[2] else None
    launch(x.data_ptr(), _address(gamma), _address(beta), dy.data_ptr(), *_parts(stat), _address(dx), _address(dgamma),
           _address(dbeta))
    return dx, dgamma, dbeta


def _norm_by_torch(x, gamma, beta, groups, eps, act):
    """The same of PyTorch's functions. gamma, beta: [C], [N, C] or None."""
    each = any(t is not None and t.dim() == 2 for t in (gamma, beta))
    y = _torch["group_norm"](x, groups, *(None, None) if each else (gamma, beta), eps)
    if each:
        gamma, beta = (t if t is None else t.reshape(-1, x.shape[1], *[1] * (x.dim() - 2)).to(y.dtype)
                       for t in (gamma, beta))
        y = y if gamma is None else y * gamma
        y = y if beta is None else y + beta
    return y if act == PASS else {RELU: F.relu, SIGMOID: torch.sigmoid, SILU: F.silu, GELU: F.gelu}[act](y)


def _norm_gradients_by_torch(dy, x, gamma, beta, groups, eps, act, need):
    """The same as functions that have gradients themselves."""
    with torch.enable_grad():
        wanted = [t for t, n in zip((x, gamma, beta), need) if n]
        given = iter(torch.autograd.grad(_norm_by_torch(x, gamma, beta, groups, eps, act), wanted, dy,
                                         create_graph=True))
    return tuple(next(given) if n else None for n in need)


class _GroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, beta, groups, eps, act, last, launch):
        y, stat = _norm(x, gamma, beta, groups, eps, act, last, launch)
        ctx.facts = groups, eps, act, last
        ctx.save_for_backward(x, gamma, beta, stat)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, gamma, beta, stat = ctx.saved_tensors
        groups, eps, act, last = ctx.facts
        need = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # create_graph: a gradient of this gradient is wanted
            gradients = _norm_gradients_by_torch(dy, x, gamma, beta, groups, eps, act, need)
        else:
            gradients = _norm_gradients(dy, x, gamma, beta, stat, groups, eps, act, last, need)
        return (*gradients, None, None, None, None, None)


_norm_apply = _direct_apply(_GroupNorm)


def _norm_with_gradient(x, gamma, beta, groups, eps, act, last, launch=None):
    if torch.is_grad_enabled() and (x.requires_grad or (gamma is not None and gamma.requires_grad) or
                                    (beta is not None and beta.requires_grad)):
        return _norm_apply(x, gamma, beta, groups, eps, act, last, launch)
    return _norm(x, gamma, beta, groups, eps, act, last, launch, False)[0]


# --- The same as operators of PyTorch (2.4 and later), which its compilers keep in their graphs: fake functions tell
# shapes and strides of results, as the real ones have them. Numbers: the members of Geometry but tf32, which is read
# when the operator runs.

OPERATORS = all(hasattr(torch.library, name) for name in ("register_fake", "register_autograd"))
CONV_NUMBERS = ("SymInt[] input, SymInt[] filter, SymInt[] stride, SymInt[] dilation, SymInt[] pad_lo, "
                "SymInt[] pad_hi, SymInt groups, bool last, bool wei_last")
CONV_OPERATORS = {FWD: "conv_fwd", BWD_DATA: "conv_bwd_data", BWD_WEIGHT: "conv_bwd_weight"}


def _conv_operator(op, a, b, bias, numbers):
    return getattr(torch.ops.ckconv, CONV_OPERATORS[op])(a, b, bias, *numbers)


def _define(name, schema, real, fake, backward=None, setup=None):
    qualified = "ckconv::" + name
    strides = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    _operators.define(name + schema, tags=(torch.Tag.pt2_compliant_tag, strides))
    for key in ("CPU", "CUDA"):
        _operators.impl(name, real, key)
    torch.library.register_fake(qualified, fake, lib=_operators)
    if backward is not None:
        torch.library.register_autograd(qualified, backward, setup_context=setup, lib=_operators)


def _define_conv(op):
    name = CONV_OPERATORS[op]

    def real(a, b, bias, *numbers):
        _counts["torch.ops.ckconv." + name, None] += 1
        g = _geometry(*(tuple(v) if isinstance(v, (list, tuple)) else v for v in numbers), _tf32(a))
        return _conv(op, a, b, bias, g)

    def fake(a, b, bias, *numbers):
        g = Geometry(*numbers, False)
        return _blank(_written_shape(op, a, b, g), a, g.wei_last if op == BWD_WEIGHT else g.last)

    def setup(ctx, inputs, output):
        ctx.numbers = inputs[3:]
        ctx.save_for_backward(inputs[0], inputs[1])

    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        gradients = _conv_gradients(op, a, b, grad, ctx.numbers, ctx.needs_input_grad, _conv_operator)
        return (*gradients, *(None for _ in ctx.numbers))

    _define(name, f"(Tensor a, Tensor b, Tensor? bias, {CONV_NUMBERS}) -> Tensor", real, fake, backward, setup)


def _define_norm():
    def real(x, gamma, beta, groups, eps, act, last):
        _counts["torch.ops.ckconv.group_norm", None] += 1
        x = _dense(x, last)
        return _norm(x, *_contiguous(gamma, beta), groups, eps, act, last)

    def fake(x, gamma, beta, groups, eps, act, last):
        return _blank(x.shape, x, last), _statistics(x, groups)

    def setup(ctx, inputs, output):
        x, gamma, beta, *ctx.facts = inputs
        ctx.save_for_backward(x, gamma, beta, output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    def backward(ctx, dy, dstat):
        x, gamma, beta, stat = ctx.saved_tensors
        groups, eps, act, last = ctx.facts
        need = ctx.needs_input_grad[:3]
        if dy is None:
            gradients = None, None, None
        elif torch.is_grad_enabled():
            gradients = _norm_gradients_by_torch(dy, x, gamma, beta, groups, eps, act, need)
        else:
            gradients = torch.ops.ckconv.group_norm_backward(dy, x, gamma, beta, stat, groups, eps, act, last, need)
            gradients = tuple(t if n else None for t, n in zip(gradients, need))
        return (*gradients, None, None, None, None)

    def real_backward(dy, x, gamma, beta, stat, groups, eps, act, last, need):
        _counts["torch.ops.ckconv.group_norm_backward", None] += 1
        results = _norm_gradients(dy, _dense(x, last), *_contiguous(gamma, beta), stat.contiguous(), groups, eps, act,
                                  last, need)
        return tuple(t if t is not None else x.new_empty(0) for t in results)

    def fake_backward(dy, x, gamma, beta, stat, groups, eps, act, last, need):
        parameters = (x.new_empty(t.shape, dtype=t.dtype) if n and t is not None else x.new_empty(0)
                      for t, n in zip((gamma, beta), need[1:]))
        return (_blank(x.shape, x, last) if need[0] else x.new_empty(0), *parameters)

    numbers = "SymInt groups, float eps, int act, bool last"
    _define("group_norm", f"(Tensor x, Tensor? gamma, Tensor? beta, {numbers}) -> (Tensor, Tensor)", real, fake,
            backward, setup)
    _define("group_norm_backward", f"(Tensor dy, Tensor x, Tensor? gamma, Tensor? beta, Tensor stat, {numbers}, "
            "bool[] need) -> (Tensor, Tensor, Tensor)", real_backward, fake_backward)


if OPERATORS:
    _operators = torch.library.Library("ckconv", "DEF")
    for _op in CONV_OPERATORS:
        _define_conv(_op)
    _define_norm()


# --- What PyTorch's functions take

_counts = collections.Counter()
_torch = {}  # PyTorch's own functions, by name


_is_compiling = torch.compiler.is_compiling if OPERATORS else lambda: False
_tracing = torch._C._get_tracing_state
_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_transforms = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
_any_autocast = getattr(torch, "is_any_autocast_enabled", None) or getattr(
    torch._C, "_is_any_autocast_enabled", lambda: torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled())
_forward_ad = torch.autograd.forward_ad
_grad_enabled = torch.is_grad_enabled
FLOAT32 = torch.float32


def _special():
    """Does more than the tensors decide what a call must do?"""
    return _any_autocast() or _tracing() is not None or _modes() or _transforms() or \
        getattr(_forward_ad, "_current_level", -1) >= 0


def _is_fake(t):
    """Is t what PyTorch's compilers take for a tensor?"""
    return type(t).__module__.startswith("torch._subclasses.")


def _by_operator(*tensors):
    """Must the operators be called, for a compiler or a mode to see them?"""
    return OPERATORS and (_is_compiling() or _modes() > 0 or any(t is not None and _is_fake(t) for t in tensors))


def _reason(*tensors):
    """Why ckconv does not take these (None among them is left out), or None."""
    first = tensors[0]
    forward_mode = False
    if not _is_compiling():
        if torch.jit.is_tracing() or torch.jit.is_scripting():
            return "a traced module"
        if _transforms():
            return "functorch's transforms"
        forward_mode = getattr(_forward_ad, "_current_level", -1) >= 0
    for t in tensors:
        if t is None:
            continue
        if forward_mode and _forward_ad.unpack_dual(t).tangent is not None:
            return "forward-mode gradients"
        if type(t) not in (torch.Tensor, torch.nn.Parameter) and not (OPERATORS and _is_fake(t)):
            return "tensors of type " + type(t).__name__
        if t.dtype not in DTYPES:
            return str(t.dtype).replace("torch.", "")
        if t.device != first.device or t.device.type not in ("cpu", "cuda"):
            return "device " + str(t.device)
        if t.layout != torch.strided:
            return "layout " + str(t.layout)
    return None


def _fall_back(name, why, *args, **kwargs):
    if not _is_compiling():
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
    dtype = _autocast_dtype(x)
    if dtype is None:
        return (x, *others)
    return tuple(t.to(dtype) if t is not None and t.dtype != torch.float64 else t for t in (x, *others))


def _autocast_dtype(x):
    """The type that autocast asks for on x's device; None where it is off."""
    if OPERATORS:  # the newer names, which compilers know
        kind = "cuda" if x.is_cuda else "cpu"
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    if x.is_cuda:
        return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None
    return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None


def _tf32(x):
    return x.dtype is FLOAT32 and x.is_cuda and _tf32_allowed()


def _tf32_allowed():
    if torch.version.hip is not None:
        return False
    try:
        return torch.backends.cudnn.allow_tf32
    except RuntimeError:  # said in both of the ways that PyTorch has
        return torch.backends.cudnn.conv.fp32_precision == "tf32"


def _any_last(x, w):
    """Does PyTorch make the result channels last? If one of both is."""
    return x.dim() > 3 and ((not x.is_contiguous() and _is_last(x)) or (not w.is_contiguous() and _is_last(w)))


def _wrong(x, w, bias, channels, outputs, groups, stride, dilation):
    """Does PyTorch refuse these?"""
    return x.dtype != w.dtype or (bias is not None and (bias.dtype != x.dtype or tuple(bias.shape) != (outputs,))) or \
        groups < 1 or w.shape[0] % groups or x.shape[1] != channels or 0 in w.shape or min(stride + dilation) < 1


# What was found out about calls that looked the same: their convolution and its launch.
_sites = {}


def _convolution(name, ndim, x, w, bias, stride, padding, dilation, groups, more=None):
    """more: a transposed convolution's output_padding."""
    if _is_compiling() or _special():
        return _convolution_first(None, name, ndim, x, w, bias, stride, padding, dilation, groups, more)
    try:
        key = (name, x.shape, x.stride(), x.dtype, x.device, x.is_neg(), type(x), w.shape, w.stride(), w.dtype,
               w.device, w.is_neg(), type(w), None if bias is None else (*_look(bias), type(bias)), stride, padding,
               dilation, groups, more, _threads(), x.dtype is FLOAT32 and _tf32(x))
        site = _sites.get(key)
    except (AttributeError, RuntimeError, TypeError):  # not tensors, or not with strides; a list
        key = site = None
    if site is None:
        return _convolution_first(key, name, ndim, x, w, bias, stride, padding, dilation, groups, more)
    op, g, launch, count, stride_there, padding_there, dilation_there, groups_there, more_there = site
    if not (stride is stride_there and padding is padding_there and dilation is dilation_there and
            groups is groups_there and more is more_there) and \
            not all(map(_plain, (stride, padding, dilation, groups, more))):
        return _convolution_first(None, name, ndim, x, w, bias, stride, padding, dilation, groups, more)
    _counts[count] += 1
    if _grad_enabled() and (x.requires_grad or w.requires_grad or (bias is not None and bias.requires_grad)):
        return _conv_apply(x, w, bias, op, g, launch)
    return _conv_again(launch, op, x, w, bias, g)


def _plain(value):
    """May it be part of a key? 1.0 would be found as 1, which PyTorch does not take for it."""
    kind = type(value)
    return kind is int or kind is str or value is None or (kind is tuple and all(type(v) is int for v in value))


def _convolution_first(key, name, ndim, x, w, bias, stride, padding, dilation, groups, more):
    """The same of a call that looks as none did before; key: how, or None if that is not to be kept."""
    given = stride, padding, dilation, groups, more
    taken = _taken(ndim, x, w, bias, *given)
    if isinstance(taken, str):
        if more is not None:
            given = stride, padding, more, groups, dilation
        return _fall_back(name, taken, x, w, bias, *given[:4 if more is None else 5])
    op, x, w, bias, batch, numbers = taken
    if _by_operator(x, w, bias):
        y = _conv_operator(op, x, w, bias, numbers)
        return y if batch else y.squeeze(0)
    _counts[name, None] += 1
    g = _geometry(*numbers, _tf32(x))
    y = _conv_with_gradient(op, x, w, bias, g)
    if key is not None and batch and all(map(_plain, given)):
        launch = _launches.get(_conv_key(op, x, w, bias, g))
        if launch is not None:
            _keep(_sites, key, (op, g, launch, (name, None), *given))
    return y if batch else y.squeeze(0)


REFUSED = "what PyTorch refuses"


def _taken(ndim, x, w, bias, stride, padding, dilation, groups, more):
    """(operation, x, w, bias, have they a batch, numbers of CONV_NUMBERS), or why ckconv does not take these."""
    why = _reason(x, w, bias)
    if why is not None:
        return why
    if w.dim() != ndim + 2 or x.dim() not in (ndim + 1, ndim + 2):
        return REFUSED
    if more is not None and not x.is_cuda and _autocast_dtype(x) is not None:
        return "autocast on the CPU"
    x, w, bias = _autocast(x, w, bias)
    batch = x.dim() == ndim + 2
    x = x if batch else x.unsqueeze(0)
    stride, dilation = _several(stride, ndim, "stride"), _several(dilation, ndim, "dilation")
    window = tuple(w.shape[2:])
    if more is None:
        if _wrong(x, w, bias, w.shape[1] * groups, w.shape[0], groups, stride, dilation):
            return REFUSED
        size = tuple(x.shape[2:])
        if isinstance(padding, str):
            if padding not in ("same", "valid") or (padding == "same" and max(stride) > 1):
                return REFUSED
            total = [d * (f - 1) if padding == "same" else 0 for d, f in zip(dilation, window)]
            low = tuple(t // 2 for t in total)
            high = tuple(t - l for t, l in zip(total, low))
        else:
            low = high = _several(padding, ndim, "padding")
        if min(low) < 0 or any(i + l + h < (f - 1) * d + 1 for i, l, h, f, d in zip(size, low, high, window, dilation)):
            return REFUSED
    else:
        low, more = _several(padding, ndim, "padding"), _several(more, ndim, "output_padding")
        high = low
        size = tuple((i - 1) * s - 2 * p + d * (f - 1) + m + 1 for i, s, p, d, f, m in
                     zip(x.shape[2:], stride, low, dilation, window, more))
        if _wrong(x, w, bias, w.shape[0], w.shape[1] * groups, groups, stride, dilation) or min(size) < 1 or \
                min(low + more) < 0 or any(m >= max(s, d) for m, s, d in zip(more, stride, dilation)):
            return REFUSED
        if any(m >= s for m, s in zip(more, stride)):  # the convolution of that size has more outputs than x
            return "output_padding of stride or more"
    wei_last = not w.is_contiguous() and _is_last(w)
    numbers = (size, window, stride, dilation, low, high, groups, _any_last(x, w), wei_last)
    return FWD if more is None else BWD_DATA, x, w, bias, batch, numbers


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolution("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolution("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _convolution("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _convolution("conv_transpose1d", 1, input, weight, bias, stride, padding, dilation, groups, output_padding)


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _convolution("conv_transpose2d", 2, input, weight, bias, stride, padding, dilation, groups, output_padding)


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _convolution("conv_transpose3d", 3, input, weight, bias, stride, padding, dilation, groups, output_padding)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, activation=None):
    """torch.nn.functional.group_norm; activation: None, "relu", "gelu" (with erf), "silu" or "sigmoid", in the same
    kernel. weight and bias may also be [N, C]. What diffusion models call scale and shift, norm(x) * (1 + scale) +
    shift, is weight = w * (1 + scale), bias = b * (1 + scale) + shift with the norm's own w and b."""
    if _is_compiling() or _special():
        return _group_norm_first(None, input, num_groups, weight, bias, eps, activation)
    try:
        key = ("group_norm", *_look(input), type(input), None if weight is None else (*_look(weight), type(weight)),
               None if bias is None else (*_look(bias), type(bias)), num_groups, eps, activation, _threads())
        site = _sites.get(key)
    except (AttributeError, RuntimeError, TypeError):  # not tensors, or not with strides
        key = site = None
    if site is None or type(num_groups) is not int or input.data_ptr() & site[0].mask:
        return _group_norm_first(key, input, num_groups, weight, bias, eps, activation)
    launch, act, last = site
    _counts["group_norm", None] += 1
    return _norm_with_gradient(input, weight, bias, num_groups, eps, act, last, launch)


def _group_norm_first(key, input, num_groups, weight, bias, eps, activation):
    """The same of a call that looks as none did before; key: how, or None if that is not to be kept."""
    act = ACTIVATIONS[activation]
    given = input, weight, bias
    why = _reason(input, weight, bias)
    if why is None and not (3 <= input.dim() <= 5):
        why = f"{input.dim()} dimensions"
    if why is None and (num_groups < 1 or input.shape[1] % num_groups or eps <= 0 or input.numel() == 0 or any(
            t is not None and t.shape not in (input.shape[1:2], input.shape[:2]) for t in (weight, bias))):
        why = "shapes that PyTorch refuses, empty tensors, or eps of 0"
    if why is None and input.is_cuda and _autocast_dtype(input) is not None:
        dtype = torch.float64 if input.dtype == torch.float64 else torch.float32  # as PyTorch's autocast does
        input, weight, bias = (t.to(dtype) if t is not None else None for t in (input, weight, bias))
    if why is None and weight is not None and bias is not None and weight.dtype != bias.dtype:
        why = "weight and bias of different types"
    if why is None:
        for t in (weight, bias):
            if t is not None and t.dtype != input.dtype and (t.dtype != FLOAT32 or input.dtype == torch.float64):
                why = f"{input.dtype} with parameters of {t.dtype}".replace("torch.", "")
    if why is not None:
        if not _is_compiling():
            _counts["group_norm", why] += 1
        return _norm_by_torch(input, weight, bias, num_groups, eps, act)
    if any(t is not None and t.dim() == 2 for t in (weight, bias)):  # one alone: the other for each sample, too
        weight, bias = (t if t is None or t.dim() == 2 else t.expand(input.shape[:2]) for t in (weight, bias))
    last = not input.is_contiguous() and _is_last(input)
    if _by_operator(input, weight, bias):
        return torch.ops.ckconv.group_norm(input, weight, bias, num_groups, eps, act, last)[0]
    _counts["group_norm", None] += 1
    weight, bias = _contiguous(weight, bias)
    input = _dense(input, last)
    y = _norm_with_gradient(input, weight, bias, num_groups, eps, act, last)
    if key is not None and type(num_groups) is int and all(t is u for t, u in zip(given, (input, weight, bias))):
        _keep(_sites, key, (_launches[_norm_key(input, weight, bias, num_groups, eps, act, last)], act, last))
    return y


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
