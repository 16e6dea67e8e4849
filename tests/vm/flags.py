"""Runs in a guest: the flags after cmpxchg16b, if its processor has that. Prints JSON: bits that no flags can have."""

import ctypes
import json
import mmap
import pathlib

CODE = bytes.fromhex(
    "53"  # push rbx
    "31c0 31d2 31db 31c9"  # rax, rdx, rbx, rcx = 0
    "9c 9d eb00"  # pushfq; popfq; jmp to the next: QEMU now holds the flags as they are
    "4829f0"  # sub rax, rsi: what is subtracted is at hand when flags are asked for
    "48c7c000000000"  # mov rax, 0: leaves the flags
    "480fc70f"  # cmpxchg16b [rdi]
    "9c 58"  # pushfq; pop rax
    "5b c3"  # pop rbx; ret
)
NONE_HAS = 0xFFC08028
"""Bits 3, 5, 15 and 22 to 31 of RFLAGS are always 0 (Intel's manual, volume 1, section 3.4.3)."""
SUBTRAHENDS = (0x07488000, 0x20000001, 0x23456789)
AT = 2048


def main():
    if "cx16" not in pathlib.Path("/proc/cpuinfo").read_text().split():
        print(json.dumps({"cx16": False, "impossible": 0}))
        return
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    flags_after = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)(address)
    found = 0
    for subtrahend in SUBTRAHENDS:
        found |= flags_after(address + AT, subtrahend) & NONE_HAS
    print(json.dumps({"cx16": True, "impossible": found}))


main()
