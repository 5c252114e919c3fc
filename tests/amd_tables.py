#!/usr/bin/env python3
"""Runs a test program with its kernels executed from an AMD code object, on an emulator.

    python3 tests/amd_tables.py [OPTIONS] CODE_OBJECT TARGET PROGRAM ARGUMENTS...
    python3 tests/amd_tables.py build/amd/gfx942.hsaco gfx942 build/test/sim/test_transform
    python3 tests/amd_tables.py build/amd/gfx942.hsaco gfx942 build/ckconv-sim verify fwd ... --engine gpu

    --seconds X    end the program after that time
    --reverse      waves and blocks in the opposite order: a result that changes shows a missing barrier

The program is built with tests/sim.h (which says what is asked and answered) and does not notice: its
launches come here by a pipe, its device memory is shared, at the same addresses, each allocation between
pages that cannot be accessed. What the kernels computed, the program checks as ever.

From the environment, as amd_emulate.py: AMDEMU and TINYGRAD. The program's output, then the kernels that ran.
Exit status: the program's, 1 if it ended by a signal. When the time is over: 1 if a check had failed, else 0.
SPDX-License-Identifier: MIT
"""
import collections
import ctypes
import mmap
import os
import subprocess
import sys
import tempfile
import time

import amd_emulate

LIMIT = 10**12  # instructions of a launch
EMPTY = 4  # instructions of a wave of a kernel that the code object has without its body
NONE, READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE


class Memory:
    """The device's memory: addresses without access, but for allocations."""

    def __init__(self):
        self.file = os.memfd_create("ckconv")
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mmap.restype, self.libc.mmap.argtypes = ctypes.c_void_p, [
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        self.libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def reserve(self, address, size):
        shared_fixed_noreserve = 0x01 | 0x100000 | 0x4000
        at = int(address, 16)
        if self.libc.mmap(at, int(size, 16), NONE, shared_fixed_noreserve, self.file, 0) != at:
            raise amd_emulate.Failure("no room for the memory of the device")

    def protect(self, address, size, access):
        if self.libc.mprotect(int(address, 16), int(size, 16), access) != 0:
            raise amd_emulate.Failure("memory of the device cannot be mapped")


def serve(code, asked, answers, options, deadline):
    """Answers the program until it ends. Launches by kernel; did the time end first?"""
    memory, kernels = options["memory"], collections.Counter()
    for line in asked:
        kind, *fields = line.split()
        if kind == "memory":
            memory.reserve(*fields)
        elif kind == "map":
            memory.protect(*fields, READ_WRITE)
        elif kind == "unmap":
            memory.protect(*fields, NONE)
        elif time.time() > deadline:
            return kernels, True
        else:
            name, grid, block, argument = fields
            try:
                stats = code.run(name, int(grid), int(block), [bytes.fromhex(argument)], limit=LIMIT,
                                 reverse=options["reverse"])
                said = "ok" if stats.insts > EMPTY * stats.waves else name + " is empty in this code object"
            except (RuntimeError, KeyError, ValueError) as e:  # RuntimeError: the emulator's own
                said = " ".join(("%s: %s" % (type(e).__name__, e)).split())
            kernels[name] += 1
            answers.write(said + "\n")
            answers.flush()
    return kernels, False


def main(arguments):
    seconds, reverse = float("inf"), False
    while arguments and arguments[0].startswith("--"):
        if arguments[0] == "--reverse":
            reverse = True
        elif arguments[0] == "--seconds" and len(arguments) > 1:
            seconds = float(arguments.pop(1))
        else:
            break
        arguments = arguments[1:]
    missing = [name for name in ("AMDEMU", "TINYGRAD") if not os.environ.get(name)]
    if len(arguments) < 3 or arguments[0].startswith("--") or missing:
        print("amd_tables: %s: not set in the environment" % " and ".join(missing) if missing else
              "usage: python3 tests/amd_tables.py [--seconds X] [--reverse] CODE_OBJECT TARGET PROGRAM ...",
              file=sys.stderr)
        return 2
    sys.path.insert(0, os.environ["AMDEMU"])
    import amdemu
    amd_emulate.correct(amdemu)
    object_file, target, *program = arguments
    code, memory = amdemu.CodeObject(object_file), Memory()
    if code.target != target:
        print("amd_tables: %s is for %s" % (object_file, code.target), file=sys.stderr)
        return 2
    asked, ask = os.pipe()
    answer, answered = os.pipe()
    environment = dict(os.environ, CKCONV_TEST_ENGINE="gpu", CKCONV_SIM_TARGET=target,
                       CKCONV_SIM_EMULATOR="%d,%d,%d" % (ask, answer, memory.file))
    began = time.time()
    output = tempfile.TemporaryFile("w+")  # no pipe: nobody would read it while launches are served
    child = subprocess.Popen(program, env=environment, pass_fds=(ask, answer, memory.file), stdout=output)
    os.close(ask)
    os.close(answer)
    with os.fdopen(asked) as lines, os.fdopen(answered, "w") as answers:
        late = True
        try:
            options = {"memory": memory, "reverse": reverse}
            kernels, late = serve(code, lines, answers, options, began + seconds)
        finally:
            if late:
                child.kill()
    child.wait()
    output.seek(0)
    text = output.read()
    print(text, end="" if text.endswith("\n") or not text else "\n")
    failed = "FAIL" in text if late else child.returncode != 0
    print("%s: %s: %d launches of %d kernels, %.0f s%s%s" % (
        target, os.path.basename(program[0]), sum(kernels.values()), len(kernels), time.time() - began,
        ", time was over" if late else "", ", FAILED" if failed else ""))
    print("kernels:", *("%s %d" % (k.replace("ckconv_k_", ""), n) for k, n in sorted(kernels.items())))
    return int(failed) if late or child.returncode < 0 else child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
