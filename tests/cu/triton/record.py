"""Runs the launches of launches.json on a GPU by the driver's API alone, and writes what they make to the file that is named."""
import base64
import ctypes
import json
import sys

cuda = ctypes.CDLL('libcuda.so.1')


def check(result, what):
    if result != 0:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(result, ctypes.byref(name))
        raise RuntimeError(f'{what}: {name.value}')


def device_memory(contents):
    pointer = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(max(len(contents), 1))), 'cuMemAlloc')
    check(cuda.cuMemcpyHtoD_v2(pointer, contents, ctypes.c_size_t(len(contents))), 'cuMemcpyHtoD')
    return pointer


def run(launch):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    with open(launch['ptx'], 'rb') as file:
        check(cuda.cuModuleLoadData(ctypes.byref(module), file.read() + b'\0'), 'cuModuleLoadData')
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, launch['kernel'].encode()), 'cuModuleGetFunction')
    if launch['sharedMemory'] > 48 * 1024:
        check(cuda.cuFuncSetAttribute(function, 8, launch['sharedMemory']), 'cuFuncSetAttribute')
    values, outputs = [], []
    for each in launch['args']:
        if 'file' in each:
            with open(each['file'], 'rb') as file:
                contents = file.read()
            values.append(device_memory(contents))
            if each['out']:
                outputs.append((values[-1], len(contents)))
        else:
            values.append(ctypes.c_float(each['value']) if each['type'] == 'f32' else ctypes.c_int32(each['value']))
    values += [ctypes.c_uint64(0), ctypes.c_uint64(0)]
    parameters = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
    check(cuda.cuLaunchKernel(function, *launch['grid'], 32 * launch['warps'], 1, 1, launch['sharedMemory'], None, parameters, None), 'cuLaunchKernel')
    check(cuda.cuCtxSynchronize(), 'cuCtxSynchronize')
    found = []
    for pointer, length in outputs:
        contents = ctypes.create_string_buffer(length)
        check(cuda.cuMemcpyDtoH_v2(contents, pointer, ctypes.c_size_t(length)), 'cuMemcpyDtoH')
        found.append(base64.b64encode(contents.raw).decode())
    return found


check(cuda.cuInit(0), 'cuInit')
device, context, name = ctypes.c_int(), ctypes.c_void_p(), ctypes.create_string_buffer(100)
check(cuda.cuDeviceGet(ctypes.byref(device), 0), 'cuDeviceGet')
check(cuda.cuDeviceGetName(name, 100, device), 'cuDeviceGetName')
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), 'cuDevicePrimaryCtxRetain')
check(cuda.cuCtxSetCurrent(context), 'cuCtxSetCurrent')
outputs = {}
with open('launches.json') as file:
    launches = json.load(file)
for launch in launches:
    try:
        outputs[launch['name']] = run(launch)
        print(launch['name'], 'ran')
    except RuntimeError as error:
        print(launch['name'], error)
with open(sys.argv[1], 'w') as file:
    json.dump({'device': name.value.decode(), 'outputs': outputs}, file)
