"""Records what an H200 makes of the launches of cases.ts and warp-cases.ts: `node dist/tests/ptx/warpgroup/record.js cases.json`, then, on a
machine with the GPU and NumPy, `python record.py cases.json answers.json`, which is stored as answers.json.br."""
import ctypes
import hashlib
import json
import base64
import sys

import numpy as np

FLOATS = {'f16': (10, 16), 'bf16': (7, 16), 'tf32': (23, 32), 'f32': (23, 32), 'e4m3': (3, 8), 'e5m2': (2, 8)}
u32 = np.uint32


def mix(x):
    x = np.asarray(x, dtype=u32)
    with np.errstate(over='ignore'):
        x = x ^ (x >> u32(16))
        x = x * u32(0x7FEB352D)
        x = x ^ (x >> u32(15))
        x = x * u32(0x846CA68B)
        return x ^ (x >> u32(16))


def hashes(seed, count):
    index = np.arange(count, dtype=u32)
    with np.errstate(over='ignore'):
        own = mix(u32(seed) * u32(0x9E3779B9) + u32(0x1234567))
        return mix(index ^ own), mix((index + u32(0x51ED270B)) ^ mix(own + u32(1)))


def elements(fill):
    kind, seed, count = fill['type'], fill['seed'], fill['count']
    if kind.startswith('places'):
        choices = np.array([0x4, 0x8, 0xC, 0x9, 0xD, 0xE] if kind == 'places' else [0x4, 0xE], u32)
        picked = choices[hashes(seed, 8 * count)[0] % u32(len(choices))].reshape(count, 8)
        words = np.zeros(count, u32)
        for at in range(8):
            words |= picked[:, at] << u32(4 * at)
        return words
    hash_, other = hashes(seed, count)
    if kind == 'word':
        return hash_
    if kind in ('s8', 'u8'):
        return (hash_ & u32(255)).astype(np.uint8)
    if kind == 'extreme':
        part = (hash_ >> u32(8)) & u32(0x3FFFF)
        return np.where(hash_ & u32(1), u32(0x7FFFFFFF) - part, u32(0x80000000) + part).astype(u32)
    fraction, bits = FLOATS[kind]
    least, greatest = fill.get('exponents', (0, 0))
    exponent = u32(least) + (other & u32(0xFFFF)) % u32(greatest - least + 1)
    sign = (hash_ >> u32(31)) << u32(bits - 1)
    value = (hash_ & u32((1 << fraction) - 1)) | (exponent << u32(fraction)) | sign
    value = np.where(((other >> u32(16)) & u32(255)) < fill.get('zeros', 0), sign, value)
    value = np.where((other >> u32(24)) < fill.get('any', 0), hash_ & u32((1 << bits) - 1), value)
    return value.astype({8: np.uint8, 16: np.uint16, 32: u32}[bits])


def filled(fills):
    return np.concatenate([elements(fill).view(np.uint8) for fill in fills])


class Cuda:
    def __init__(self):
        self.driver = ctypes.CDLL('libcuda.so.1')
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self.driver.cuInit(0))
        self.check(self.driver.cuDeviceGet(ctypes.byref(device), 0))
        self.check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.check(self.driver.cuCtxSetCurrent(context))
        name = ctypes.create_string_buffer(100)
        self.check(self.driver.cuDeviceGetName(name, 100, device))
        self.name = name.value.decode()
        self.buffers = {}

    def check(self, result):
        if result:
            raise RuntimeError(f'CUDA error {result}')

    def load(self, text):
        module = ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(module), text.encode() + b'\0'))
        return module

    def buffer(self, index, array):
        pointer, size = self.buffers.get(index, (None, 0))
        if size < array.nbytes:
            pointer = ctypes.c_uint64()
            self.check(self.driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(array.nbytes)))
            self.buffers[index] = (pointer, array.nbytes)
        self.check(self.driver.cuMemcpyHtoD_v2(pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes)))
        return pointer

    def run(self, module, case):
        function = ctypes.c_void_p()
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(function), module, case['kernel'].encode()))
        shared = case.get('shared', 0)
        if shared:
            self.check(self.driver.cuFuncSetAttribute(function, 8, shared))
        values, out = [], None
        for index, parameter in enumerate(case['parameters']):
            if 'number' in parameter:
                values.append(ctypes.c_uint32(parameter['number']))
            elif 'words' in parameter:
                values.append(self.buffer(index, np.array([int(word, 16) for word in parameter['words']], np.uint64)))
            elif 'fills' in parameter:
                values.append(self.buffer(index, filled(parameter['fills'])))
            else:
                out = np.full(parameter['out'], 0xDEADBEEF, u32)
                place = self.buffer(index, out)
                values.append(place)
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.byref(each), ctypes.c_void_p) for each in values])
        self.check(self.driver.cuLaunchKernel(function, *case['grid'], case['block'], 1, 1, shared, None, pointers, None))
        self.check(self.driver.cuCtxSynchronize())
        self.check(self.driver.cuMemcpyDtoH_v2(out.ctypes.data_as(ctypes.c_void_p), place, ctypes.c_size_t(out.nbytes)))
        return out


def main(cases_path, answers_path, all_path=None):
    with open(cases_path) as file:
        given = json.load(file)
    cuda, modules, answers, everything = Cuda(), {}, {}, {}
    for case in given['cases']:
        text = case['text']
        if text not in modules:
            modules[text] = cuda.load(given['texts'][text])
        result = cuda.run(modules[text], case)
        digest = base64.b64encode(hashlib.sha256(result.tobytes()).digest()).decode()[:16]
        answers[case['key']] = [digest, ' '.join(f'{word:x}' for word in result[:4])]
        if case.get('keep'):
            everything[case['key']] = result
    with open(answers_path, 'w') as file:
        json.dump({'device': cuda.name, 'answers': answers}, file)
    if all_path:
        np.savez_compressed(all_path, **everything)


if __name__ == '__main__':
    main(*sys.argv[1:])
