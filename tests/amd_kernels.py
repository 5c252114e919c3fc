#!/usr/bin/env python3
"""Registers, spills, scratch and LDS of an AMD code object's kernels.

    python3 tests/amd_kernels.py CODE_OBJECT [TABLE]

TABLE gets a line for each kernel. Printed: number of kernels; most VGPRs and their kernel; VGPR spills, SGPR
spills and bytes of scratch of all kernels; most LDS and its kernel. The figures are those of the note that
the loader reads (LLVM's AMDGPU usage guide, "Code Object Metadata"). It is MessagePack and read here, because
the readelf of one LLVM release does not know the targets of the next.
SPDX-License-Identifier: MIT
"""
import struct
import sys

NT_AMDGPU_METADATA = 32
HEADINGS = ("kernel", "vgpr", "sgpr", "vspills", "sspills", "scratch", "lds", "args", "block", "wave")


def unpack(b, i=0):
    """The MessagePack value at b[i:] and the index behind it."""
    t = b[i]
    i += 1
    if t < 0x80:
        return t, i
    if t >= 0xe0:
        return t - 256, i
    if t in (0xc0, 0xc2, 0xc3):
        return {0xc0: None, 0xc2: False, 0xc3: True}[t], i
    fixed = {0xca: "f", 0xcb: "d", 0xcc: "B", 0xcd: "H", 0xce: "I", 0xcf: "Q",
             0xd0: "b", 0xd1: "h", 0xd2: "i", 0xd3: "q"}
    if t in fixed:
        return struct.unpack_from(">" + fixed[t], b, i)[0], i + struct.calcsize(fixed[t])
    counted = {0xd9: "B", 0xda: "H", 0xdb: "I", 0xdc: "H", 0xdd: "I", 0xde: "H", 0xdf: "I"}
    if t in counted:
        count = struct.unpack_from(">" + counted[t], b, i)[0]
        i += struct.calcsize(counted[t])
        kind = "text" if t < 0xdc else "list" if t < 0xde else "map"
    elif t < 0xc0:
        kind = "map" if t < 0x90 else "list" if t < 0xa0 else "text"
        count = t & (31 if kind == "text" else 15)
    else:
        raise ValueError("MessagePack type %#x" % t)
    if kind == "text":
        return b[i:i + count].decode(), i + count
    values = []
    for _ in range(count * (2 if kind == "map" else 1)):
        value, i = unpack(b, i)
        values.append(value)
    return (dict(zip(values[::2], values[1::2])) if kind == "map" else values), i


def metadata(elf):
    """The metadata of a code object, from the notes in its program headers."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a little-endian 64-bit ELF file")
    headers, = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    for h in range(count):
        kind, _, at, _, _, length = struct.unpack_from("<IIQQQQ", elf, headers + size * h)
        end = at + length
        while kind == 4 and at + 12 <= end:
            name, desc, note = struct.unpack_from("<III", elf, at)
            start = at + 12 + (name + 3 & ~3)
            if note == NT_AMDGPU_METADATA and elf[at + 12:at + 12 + name] == b"AMDGPU\0":
                return unpack(elf[start:start + desc])[0]
            at = start + (desc + 3 & ~3)
    raise ValueError("no AMDGPU metadata")


def main():
    with open(sys.argv[1], "rb") as f:
        kernels = metadata(f.read()).get("amdhsa.kernels", [])
    rows = []
    for k in sorted(kernels, key=lambda k: k[".name"]):
        # A dynamic stack has no size here; what it needs is scratch all the same.
        scratch = k[".private_segment_fixed_size"] or (1 if k.get(".uses_dynamic_stack") else 0)
        rows.append((k[".name"], k[".vgpr_count"], k[".sgpr_count"],
                     k.get(".vgpr_spill_count", 0), k.get(".sgpr_spill_count", 0), scratch,
                     k[".group_segment_fixed_size"], k[".kernarg_segment_size"],
                     k[".max_flat_workgroup_size"], k[".wavefront_size"]))
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w") as f:
            for row in [HEADINGS] + rows:
                f.write("%-40s %5s %5s %7s %7s %8s %6s %5s %6s %5s\n" % row)
    none = ("-",) + (0,) * 9
    most = max(rows, key=lambda r: r[1], default=none)
    lds = max(rows, key=lambda r: r[6], default=none)
    print(len(rows), most[1], most[0], *(sum(r[i] for r in rows) for i in (3, 4, 5)), lds[6], lds[0])


if __name__ == "__main__":
    main()
