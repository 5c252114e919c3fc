#!/usr/bin/env python3
"""Runs launches that the driver dumped, with an AMD code object, on an emulator of AMD's instructions.

    build/ckconv run OP PROBLEM FILES --target gfx942 --dump-launch DIR
    python3 tests/amd_emulate.py build/amd/gfx942.hsaco DIR [--mem] [--reverse]
    build/ckconv run OP PROBLEM FILES --target gfx942 --load-results DIR

DIR/launch.txt has a line for each thing, in order:
    arch NAME
    buffer NAME ADDRESS BYTES r|w FILE     ADDRESS: hexadecimal, made up; FILE in DIR: contents, or - for none
    launch KERNEL GRID BLOCK FILE          FILE in DIR: the kernel's argument, one struct by value
Written buffers become DIR/NAME.out. Pointers are found in an argument by their values, so addresses must not
look like two 32-bit integers of usual size: above 2^62 they do not.

From the environment: AMDEMU (folder of amdemu.py and amdemu_core.c) and TINYGRAD (a tinygrad checkout).
--mem counts LDS bank conflicts and coalescing. --reverse runs waves and blocks in the opposite order: a
result that changes shows a missing barrier. Exit status 1: a line on stderr says what went wrong.
SPDX-License-Identifier: MIT
"""
import atexit
import ctypes
import mmap
import os
import re
import shutil
import struct
import sys
import tempfile

# Below, the upper half of an address is an int32_t that could be a size: {1, 16} is 0x1000000001.
NOT_A_NUMBER = 1 << 62
VCC = 106


class Failure(Exception):
    pass


class Buffer:
    """A buffer of the dump, and its memory in the emulator."""

    def __init__(self, emu, folder, name, address, size, access, file):
        self.name, self.address, self.size = name, int(address, 16), int(size)
        self.written = access == "w"
        if access not in ("r", "w") or self.size < 0 or self.address % 256 != 0:
            raise Failure("launch.txt: buffer %s: not r or w, size below 0 or address not aligned" % name)
        self.initial = None if file == "-" else read(folder, file)
        if self.initial is not None and len(self.initial) != self.size:
            raise Failure("%s: %d bytes, not %d" % (file, len(self.initial), self.size))
        # Without contents: 0xff, which is NaN in every floating-point type, so that a read of it shows.
        self.memory = emu.Buf(self.size if self.initial is None else self.initial)

    def check(self):
        """What the emulator itself does not see: it protects pages behind a buffer, to 16 bytes."""
        start, page = self.memory.addr, mmap.PAGESIZE
        around = ctypes.string_at(start - start % page, start % page)
        around += ctypes.string_at(start + self.size, -self.size % 16)
        if around.count(0xff) != len(around):
            raise Failure("bytes just outside of buffer %s were written" % self.name)
        if not self.written and self.initial is not None and self.memory.bytes() != self.initial:
            raise Failure("buffer %s is read only and was written" % self.name)


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def relocate(arg, buffers):
    """The argument with addresses of the emulator. An address may be just behind the end of its buffer."""
    arg = bytearray(arg)
    for at in range(0, len(arg) - 7, 8):
        word, = struct.unpack_from("<Q", arg, at)
        for b in buffers:
            if b.address <= word <= b.address + b.size:
                struct.pack_into("<Q", arg, at, b.memory.addr + word - b.address)
                break
    return bytes(arg)


def memory_line(mem):
    """LDS cycles over the ideal; parts of 64-byte lines that loads and stores ask for, and use."""
    lds = [r for r in mem.rows if r["op"].startswith("lds")]
    text = "    LDS cycles %.2f of ideal" % mem.total["lds"]["conf"]
    if lds:
        worst = max(lds, key=lambda r: r["conf"])
        text += ", worst %.2f (%s at 0x%x)" % (worst["conf"], worst["name"], worst["pc"])
    for op in ("load", "store"):
        t = mem.total[op]
        text += "; %ss efficiency %.2f, lines used %.2f" % (op, t["eff"], t["use"])
    scratch = sum(t["bytes"] for op, t in mem.total.items() if op.startswith("scratch"))
    return text + ("; scratch %d bytes" % scratch if scratch else "")


def launch(code, buffers, folder, fields, options):
    kernel, grid, block, file = fields
    if kernel not in code.kernels:
        raise Failure("no kernel %s in the code object" % kernel)
    arg, size = read(folder, file), sum(a[".size"] for a in code.kernels[kernel].args
                                        if not a[".value_kind"].startswith("hidden"))
    if len(arg) != size:
        raise Failure("%s: an argument of %d bytes, %s takes %d" % (file, len(arg), kernel, size))
    if int(grid) > 0:
        stats = code.run(kernel, int(grid), int(block), [relocate(arg, buffers)],
                         mem="--mem" in options, reverse="--reverse" in options)
        print("%-32s %6d workgroups of %4d  %8.2f s" % (kernel, int(grid), int(block), stats.seconds))
        if stats.mem is not None:
            print(memory_line(stats.mem))
    for b in buffers:
        b.check()


def as_vop3(word, kind):
    """A VOP1, VOP2 or VOPC instruction of CDNA as the same operation in the VOP3 encoding."""
    src0, second, third = word & 0x1ff, word >> 9 & 0xff, word >> 17 & 0xff
    op, src1, dst = {"VOP1": (0x140 + second, 0, third), "VOPC": (third, 256 + second, VCC),
                     "VOP2": (0x100 + (word >> 25 & 0x3f), 256 + second, third)}[kind]
    return 0x34 << 26 | op << 16 | dst | (src0 | src1 << 9) << 32


def is_misread(inst, name, word):
    """Has this instruction of CDNA an operand of 16 bits above v127?"""
    bits, fields = inst.canonical_op_bits, [word & 0x1ff]
    fields += [] if name == "VOP1" else [256 + (word >> 9 & 0xff)]
    return (bits["s0"] == 16 and max(fields) >= 384) or (
        name != "VOPC" and bits["d"] == 16 and word >> 24 & 1)


# What the emulator's core lacks of loads; `fl` are an entry's flags, p[3], of which it uses those below 32.
TURN_LDS, TURN_MEMORY, LARGE_LDS = 32, 64, 128
LOADS = """
  if (fl & 32) { /* ds_read_b64_tr_b16: of 16 lanes, lane i gets half i % 4 of lanes i / 4, 4 + i / 4, .. */
    uint16_t t[64][4] = {{0}};
    for (int l = 0; l < W; l++) if ((ex >> l) & 1) {
      Adr A; int rc = calc(c, p, s, v, w, l, p[7], 8, &A);
      if (rc) return rc;
      memcpy(t[l], A.ptr, 8);
    }
    for (int l = 0; l < W; l++) if ((ex >> l) & 1) for (int d = 0; d < 2; d++) {
      int from = (l & ~15) + 8 * d + (l & 15) / 4, h = l & 3;
      r[(p[5] + d) * W + l] = t[from][h] | (uint32_t)t[from + 4][h] << 16;
    }
    return 0;
  }
  if (fl & 64) { /* global_load_tr_b128: of 8 lanes, lane i gets half i of the eight that each names */
    uint16_t t[64][8];
    if (ex != (W == 64 ? ~0ull : 0xffffffffull)) return R_EXEC;
    for (int l = 0; l < W; l++) {
      Adr A; int rc = calc(c, p, s, v, w, l, p[7], 16, &A);
      if (rc) return rc;
      memcpy(t[l], A.ptr, 16);
    }
    for (int l = 0; l < W; l++) for (int d = 0; d < 4; d++) {
      int from = (l & ~7) + 2 * d, h = l & 7;
      r[(p[5] + d) * W + l] = t[from][h] | (uint32_t)t[from + 1][h] << 16;
    }
    return 0;
  }
"""
BEFORE_LOADS = "  uint32_t *r = (fl & 8) ? a : v;\n"
M0_BITS = ("(s[c->cdna ? 124 : 125] & 0xffff)", "(s[c->cdna ? 124 : 125] & ((fl & 128) ? 0x3ffff : 0xffff))")


def turned(word):
    """Of a load that turns: the word of the same load that does not, and what the core is told."""
    if word >> 26 == 0x36 and word >> 17 & 0xff == 227:  # gfx950: ds_read_b64_tr_b16 as ds_read_b64
        return word & ~(0xff << 17) | 118 << 17, TURN_LDS
    if word >> 24 == 0xee and word >> 14 & 0xff == 87:  # gfx12: global_load_tr_b128 as global_load_b128
        return word & ~(0xff << 14) | 23 << 14, TURN_MEMORY
    return word, 0


def add_loads(emu):
    """Teaches the emulator loads that turn, and gfx950's loads into LDS beyond 64 KB. An emulator whose core
    has another text stays as it is."""
    with open(os.path.join(str(emu.HERE), "amdemu_core.c")) as f:
        core = f.read()
    if core.count(BEFORE_LOADS) != 1 or core.count(M0_BITS[0]) != 1 or "_tr_b" in core:
        return
    folder = tempfile.mkdtemp(prefix="ckconv-emulator-")
    atexit.register(shutil.rmtree, folder, True)
    with open(os.path.join(folder, "amdemu_core.c"), "w") as f:
        f.write(core.replace(BEFORE_LOADS, BEFORE_LOADS + LOADS).replace(*M0_BITS))
    emu.HERE, decode = type(emu.HERE)(folder), emu._decode

    def decode_loads(raw, arch, target, entry):
        word, flag = turned(int.from_bytes(raw[:4], "little")) if arch in ("cdna", "rdna4") else (0, 0)
        name = decode(word.to_bytes(4, "little") + raw[4:] if flag else raw, arch, target, entry)
        if flag or target == "gfx950" and entry.kind == emu.K_MEM:
            entry.p[3] |= flag or LARGE_LDS
        return name

    emu._decode = decode_loads


def keep_nan(emu):
    """Of an f32 to bf16 (gfx950: v_cvt_pk_bf16_f32) the emulator rounds the bits, whatever they are: NaN 0x7fffffff
    becomes -0. Compilers take that instruction for every such conversion, so it has to keep a NaN. What was compiled
    of instructions before is kept apart."""
    start, emu.CACHE = emu._emu, emu.CACHE / "nan"

    def started():
        first = emu._E is None
        core = start()
        if first:
            import test.mockgpu.amd.pcode as pcode
            plain = pcode._FUNCS["f32_to_bf16"]
            pcode._FUNCS["f32_to_bf16"] = lambda v: is_nan(pcode, v).where(
                pcode._const(pcode.dtypes.uint16, 0x7fc0), plain(v))
        return core

    def is_nan(pcode, v):
        types = pcode.dtypes
        bits = (v.bitcast(types.float32) if v.dtype != types.float32 else v).bitcast(types.uint32)
        return (bits & pcode._u32(0x7fffffff)) > pcode._u32(0x7f800000)

    emu._emu = started


def correct(emu):
    """Mends what the emulator misreads: operands of 16 bits above v127 of CDNA's VOP1, VOP2 and VOPC.

    There, VDST and VSRC1 are VGPRs 0 to 255 and SRC0 from 256 on a VGPR, for operands of any size: for
    v_lshlrev_b16_e32 v150, 2, v1, `llvm-mc -triple=amdgcn -mcpu=gfx90a -show-encoding` puts 150 into VDST
    (bits 17 to 24). The emulator goes by RDNA 3, where bit 7 of such an operand chooses the upper half of a
    VGPR below 128: it shifts into half of v22. The VOP3 encoding, whose fields are wider, it reads right, so
    such an instruction is executed from there.
    """
    if getattr(emu, "ckconv_corrected", False):
        return
    emu.ckconv_corrected, decode, plain = True, emu._decode, emu._sub

    def sub(raw, arch, entry, name, size):
        """The instruction that DPP leaves: it reads v255."""
        word, inst = int.from_bytes(raw[:4], "little"), emu._emu().decode_inst(raw, arch)
        kind = type(inst).__name__
        if arch == "cdna" and kind in ("VOP1", "VOP2", "VOPC") and is_misread(inst, kind, word):
            raw = as_vop3(word, kind).to_bytes(16, "little")
        return plain(raw, arch, entry, name, size)

    def corrected(raw, arch, target, entry):
        word = int.from_bytes(raw[:4], "little")
        # neither DPP nor SDWA, which emu._decode knows, nor another format
        if arch != "cdna" or word >> 31 or word & 0x1ff in (0xf9, 0xfa):
            return decode(raw, arch, target, entry)
        inst = emu._emu().decode_inst(raw, arch)
        kind, name = type(inst).__name__, emu._emu()._op_name(inst)
        literal = kind.endswith("_LIT")
        kind = kind.replace("_LIT", "")
        if kind not in ("VOP1", "VOP2", "VOPC") or name.endswith("8_E32") or not is_misread(inst, kind, word):
            return decode(raw, arch, target, entry)
        if literal:
            raise NotImplementedError(name + " with a literal and an operand of 16 bits above v127")
        # as DPP that moves nothing: quad_perm [0,1,2,3] of v255, all rows and banks, all lanes fetched
        for i, value in enumerate((0, 0xe4, 0xff, 1, 1, 255, 0)):
            entry.p[i] = value
        return plain(as_vop3(word, kind).to_bytes(16, "little"), arch, entry, name, 4)

    emu._sub, emu._decode = sub, corrected
    add_loads(emu)
    keep_nan(emu)


def run(object_file, folder, options, buffers):
    missing = [name for name in ("AMDEMU", "TINYGRAD") if not os.environ.get(name)]
    if missing:
        raise Failure("%s: not set in the environment" % " and ".join(missing))
    sys.path.insert(0, os.environ["AMDEMU"])
    import amdemu
    correct(amdemu)
    code = amdemu.CodeObject(object_file)
    for number, line in enumerate(read(folder, "launch.txt").decode().splitlines(), 1):
        fields = line.split()
        kind = (fields[0], len(fields)) if fields else None
        if kind == ("arch", 2):
            if fields[1] != code.target:
                raise Failure("the dump is for %s, the code object for %s" % (fields[1], code.target))
        elif kind == ("buffer", 6):
            b = Buffer(amdemu, folder, *fields[1:])
            if any(b.address <= o.address + o.size and o.address <= b.address + b.size for o in buffers):
                raise Failure("launch.txt:%d: buffer %s touches another" % (number, b.name))
            if b.address < NOT_A_NUMBER:
                print("note: numbers can look like the address of %s: take one above 2^62" % b.name)
            buffers.append(b)
        elif kind == ("launch", 5):
            launch(code, buffers, folder, fields[1:], options)
            sys.stdout.flush()
        elif kind is not None:
            raise Failure("launch.txt:%d: not understood: %s" % (number, line))
    for b in buffers:
        if b.written:
            with open(os.path.join(folder, b.name + ".out"), "wb") as f:
                f.write(b.memory.bytes())


def main(arguments):
    options = [a for a in arguments if a.startswith("--")]
    names = [a for a in arguments if not a.startswith("--")]
    if len(names) != 2 or not set(options) <= {"--mem", "--reverse"}:
        print("usage: python3 tests/amd_emulate.py CODE_OBJECT DIR [--mem] [--reverse]", file=sys.stderr)
        return 2
    buffers = []
    try:
        run(names[0], names[1], options, buffers)
    except (Failure, RuntimeError, ImportError, OSError, ValueError, KeyError, struct.error) as e:
        # RuntimeError: the emulator's own. It knows buffers by number.
        ids = {b.memory.id: b.name for b in buffers}
        text = re.sub(r"buffer id (\d+)", lambda m: "buffer " + ids.get(int(m[1]), m[1]), str(e))
        if not isinstance(e, (Failure, RuntimeError, OSError)):
            text = "%s: %s" % (type(e).__name__, text)
        print("amd_emulate: %s" % " ".join(text.split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
