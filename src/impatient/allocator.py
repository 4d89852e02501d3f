"""Large temporaries without a page fault for every page of every one of them."""

import ctypes
import os
import platform

# <malloc.h>
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Let glibc reuse large freed blocks instead of giving each back to the kernel and faulting it in anew.

    The process stays as big as it once was. Does nothing without glibc, or where the environment has a word about it
    already (MALLOC_…).
    """
    if platform.libc_ver()[0] != "glibc" or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = ctypes.CDLL(None).mallopt
    for option, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 2**26)):
        mallopt(option, value)
