#!/usr/bin/env python3
"""The stack that each C function needs at most, from a linked program's machine code.

    stack.py PROGRAM        prints `function bytes`, of every pf_ function

A function's frame is all that its instructions ever take from the stack, each counted once.
A call adds what the callee needs; an indirect one, the most that any function needs whose
address is taken. What C's callbacks need comes on top. `Threads::join` and what it runs are
left out: a session of C has one thread, whose work is never divided. Recursion and a frame
of unknown size are errors.
"""

import re
import subprocess
import sys

OBJDUMP, NM = "arm-none-eabi-objdump", "arm-none-eabi-nm"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def registers(operands):
    """How many registers a list like {r4, r5-r7, lr} names."""
    count = 0
    for part in re.search(r"\{(.*)\}", operands).group(1).split(","):
        ends = re.findall(r"[rsd](\d+)", part)
        count += int(ends[1]) - int(ends[0]) + 1 if len(ends) == 2 else 1
    return count


def frame(name, lines):
    """Bytes that the instructions take from the stack."""
    taken = 0
    for _, op, args in lines:
        number = re.search(r"#(\d+)", args)
        if op.startswith("push") or op.startswith("stmdb") and args.startswith("sp!"):
            taken += 4 * registers(args)
        elif op.startswith("vpush"):
            taken += (8 if "{d" in args else 4) * registers(args)
        elif re.match(r"sub(w|\.w)?$", op) and args.startswith("sp"):
            if not number:
                raise SystemExit(f"{name}: a frame of unknown size: {op} {args}")
            taken += int(number.group(1))
        elif re.match(r"sub(w|\.w)?$", op) and re.match(r"r\d+, sp, #", args):
            # The start of an aligned frame.
            taken += int(number.group(1))
        elif op == "bfc" and (bits := re.match(r"r\d+, #0, #(\d+)", args)):
            # Aligning takes up to so much more.
            taken += (1 << int(bits.group(1))) - 8
        elif re.match(r"(str|strd|vstr)", op) and (down := re.search(r"\[sp, #-(\d+)\]!", args)):
            taken += int(down.group(1))
    return taken


def main(program):
    functions, start = {}, {}
    current = None
    for line in output(OBJDUMP, "-d", "--no-show-raw-insn", program).splitlines():
        if head := re.match(r"([0-9a-f]+) <(.+)>:$", line):
            current = head.group(2)
            start[int(head.group(1), 16)] = current
            functions[current] = []
        elif current and (body := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)$", line)):
            functions[current].append((int(body.group(1), 16), body.group(2), body.group(3)))

    words = []
    for section in (".rodata", ".data"):
        dump = subprocess.run([OBJDUMP, "-s", "-j", section, program], capture_output=True, text=True).stdout
        for line in dump.splitlines():
            if found := re.match(r" [0-9a-f]+ ((?:[0-9a-f]{8} ?){1,4})", line):
                words += [int.from_bytes(bytes.fromhex(word), "little") for word in found.group(1).split()]

    def pointed(word):
        """The function that a word is the address of."""
        return start.get(word - 1) if word & 1 else None

    divided = re.compile(r"7threads7Workers.*closure|vtable.shim|7Threads|threads.*Threads.*join")
    callback = re.compile(r"ffi..session..Watcher.*7weights")
    taken = {pointed(word) for word in words}
    for code in functions.values():
        # Addresses in literal pools, and in pairs of movw and movt.
        low = {}
        for _, op, args in code:
            if op == ".word" and (word := re.match(r"0x([0-9a-f]+)", args)):
                taken.add(pointed(int(word.group(1), 16)))
            elif pair := re.match(r"(\w+), #(\d+)", args):
                if op == "movw":
                    low[pair.group(1)] = int(pair.group(2))
                elif op == "movt" and pair.group(1) in low:
                    taken.add(pointed(int(pair.group(2)) << 16 | low[pair.group(1)]))
    taken = {name for name in taken if name and not divided.search(name)}

    need, open_ = {}, []

    def of(name):
        if name in need:
            return need[name]
        if name in open_:
            raise SystemExit("recursion: " + " > ".join(open_[open_.index(name) :] + [name]))
        open_.append(name)
        deepest, code = (0, None), functions[name]
        for _, op, args in code:
            callees = set()
            if target := re.search(r"<([^>+]+)>$", args):
                if op.startswith("b") and target.group(1) in functions and target.group(1) != name:
                    callees = {target.group(1)}
            elif (op == "blx" or op == "bx" and args != "lr") and not callback.search(name):
                callees = taken
            deepest = max([deepest] + [(of(callee)[0], callee) for callee in callees], key=lambda x: x[0])
        open_.pop()
        need[name] = (frame(name, code) + deepest[0], frame(name, code), deepest[1])
        return need[name]

    for name in sorted(name for name in functions if name.startswith("pf_")):
        print(name, of(name)[0])
    if "-v" in sys.argv:
        for name in sorted(functions, key=lambda name: -frame(name, functions[name]))[:14]:
            print("#", frame(name, functions[name]), name)
        name = max((name for name in functions if name.startswith("pf_")), key=lambda name: of(name)[0])
        while name:
            print("# >", of(name)[:2], name)
            name = of(name)[2]


main(sys.argv[1])
