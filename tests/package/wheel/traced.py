"""Plays the calls of a small program of CUDA, which fake-cupti.c tells to what traces this process, as `racy` or as `right`."""
import ctypes
import os
import sys

FAKE = ctypes.CDLL(os.environ['CUDA_STREAMS_CUPTI'])


def play(how):
    arguments = (ctypes.c_char_p * 3)(b'', os.environ['CUDA_INJECTION64_PATH'].encode(), how.encode())
    assert FAKE.play(3, arguments) == 0


if __name__ == '__main__':
    play(sys.argv[1])
    sys.exit(int(sys.argv[2]))
