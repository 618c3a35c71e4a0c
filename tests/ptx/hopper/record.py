"""Plays the cases of this folder on a GPU, without Node: record.py CASES ANSWERS, both JSON.

Each case is played in a process that later cases share until one of them fails, since a fault takes the context with it.
"""

import base64
import ctypes
import json
import os
import subprocess
import sys
import time

CUDA = ctypes.CDLL("libcuda.so.1")
SECONDS = 8


def check(where, result):
    if result != 0:
        raise Failure(where, result)


class Failure(Exception):
    def __init__(self, where, result):
        super().__init__(f"{where}: {result}")
        self.where = where
        self.result = result


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    ]


def encode(spec, address):
    """The result of the driver's call and the bytes of the map."""
    raw = ctypes.create_string_buffer(128 + 64)
    at = (ctypes.addressof(raw) + 63) // 64 * 64
    ctypes.memset(at, 0xEE, 128)
    rank = len(spec["dims"])
    array = lambda kind, values: (kind * max(1, len(values)))(*[kind(each).value for each in values])
    dims = array(ctypes.c_uint64, spec["dims"])
    strides = array(ctypes.c_uint64, spec["strides"])
    steps = array(ctypes.c_uint32, spec.get("elementStrides", [1] * rank))
    tail = [ctypes.c_int(spec.get(name, 0)) for name in ("interleave", "swizzle", "l2", "fill")]
    first = [ctypes.c_void_p(at), ctypes.c_int(spec["type"]), ctypes.c_uint32(rank), ctypes.c_void_p(address)]
    im2col = spec.get("im2col")
    if im2col is None:
        box = array(ctypes.c_uint32, spec["box"])
        result = CUDA.cuTensorMapEncodeTiled(*first, dims, strides, box, steps, *tail)
    else:
        lower, upper = array(ctypes.c_int32, im2col["lower"]), array(ctypes.c_int32, im2col["upper"])
        sizes = [ctypes.c_uint32(im2col["channels"]), ctypes.c_uint32(im2col["pixels"])]
        result = CUDA.cuTensorMapEncodeIm2col(*first, dims, strides, lower, upper, *sizes, steps, *tail)
    return result, ctypes.string_at(at, 128)


class Player:
    def __init__(self):
        check("cuInit", CUDA.cuInit(0))
        self.context = ctypes.c_void_p()
        check("retain", CUDA.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), 0))
        check("current", CUDA.cuCtxSetCurrent(self.context))
        self.modules = {}
        self.spare = []

    def allocate(self, bytes_):
        pointer = ctypes.c_uint64()
        check("alloc", CUDA.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(bytes_)))
        return pointer.value

    def function(self, ptx, entry):
        if (ptx, entry) not in self.modules:
            module = ctypes.c_void_p()
            log = ctypes.create_string_buffer(4096)
            options = (ctypes.c_int * 2)(5, 6)
            values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), ctypes.c_void_p(4096))
            result = CUDA.cuModuleLoadDataEx(ctypes.byref(module), ptx.encode() + b"\0", 2, options, values)
            if result != 0:
                print(log.value.decode(errors="replace")[:300])
            check("load", result)
            function = ctypes.c_void_p()
            check("function", CUDA.cuModuleGetFunction(ctypes.byref(function), module, entry.encode()))
            self.modules[(ptx, entry)] = function
        return self.modules[(ptx, entry)]

    def play(self, case):
        answer = {"name": case["name"]}
        try:
            function = self.function(case["ptx"], case.get("entry", "k"))
            buffers = []
            for text in case["buffers"]:
                contents = base64.b64decode(text)
                # A buffer has a block of its own, of a size that a GPU maps apart, so that what lies beyond it is not mapped.
                pointer = self.allocate(max(len(contents), 1 << 21))
                check("upload", CUDA.cuMemcpyHtoD_v2(ctypes.c_uint64(pointer), contents, ctypes.c_size_t(len(contents))))
                buffers.append((pointer, len(contents), contents))
            arguments = []
            for each in case["args"]:
                if "buffer" in each:
                    arguments.append(ctypes.c_uint64(buffers[each["buffer"]][0] + each.get("offset", 0)))
                elif "map" in each:
                    spec = each["map"]
                    result, bytes_ = encode(spec, buffers[spec["buffer"]][0] + spec.get("offset", 0))
                    check("encode", result)
                    arguments.append((ctypes.c_ubyte * 128)(*bytes_))
                else:
                    arguments.append(ctypes.c_uint32(each["u32"] & 0xFFFFFFFF))
            pointers = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(each) for each in arguments])
            config = Config()
            config.grid = (ctypes.c_uint * 3)(*case["grid"])
            config.block = (ctypes.c_uint * 3)(*case["block"])
            config.shared = case.get("shared", 0)
            attribute = (Attribute * 1)()
            if "cluster" in case:
                attribute[0].id = 4
                attribute[0].value[0], attribute[0].value[1], attribute[0].value[2] = case["cluster"]
                config.attributes = attribute
                config.count = 1
            check("launch", CUDA.cuLaunchKernelEx(ctypes.byref(config), function, pointers, None))
            check("run", CUDA.cuCtxSynchronize())
            answer["buffers"] = []
            for pointer, length, before in buffers:
                after = ctypes.create_string_buffer(length)
                check("download", CUDA.cuMemcpyDtoH_v2(after, ctypes.c_uint64(pointer), ctypes.c_size_t(length)))
                answer["buffers"].append(None if after.raw == before else base64.b64encode(after.raw).decode())
                CUDA.cuMemFree_v2(ctypes.c_uint64(pointer))
        except Failure as failure:
            answer["where"] = failure.where
            answer["result"] = failure.result
        return answer


def child(path, start, stop):
    """Plays cases from one on, a line of output for each, until one leaves the context unusable."""
    with open(path, encoding="utf8") as file:
        cases = json.load(file)["cases"]
    player = Player()
    for index in range(start, stop):
        print(json.dumps({"begins": index}), flush=True)
        answer = player.play(cases[index])
        print(json.dumps({"index": index, **answer}), flush=True)
        if answer.get("where") in ("run", "download", "upload", "alloc"):
            os._exit(0)
    os._exit(0)


def parent(path, to):
    with open(path, encoding="utf8") as file:
        given = json.load(file)
    cases = given["cases"]
    answers = {}
    start = 0
    until = time.time() + float(os.environ.get("RECORD_SECONDS", "70"))
    while start < len(cases) and time.time() < until:
        command = [sys.executable, os.path.abspath(__file__), "--child", path, str(start), str(len(cases))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        os.set_blocking(process.stdout.fileno(), False)
        text, began, last = "", start, time.time()
        while True:
            piece = (process.stdout.read() or b"").decode()
            if piece:
                text += piece
                last = time.time()
            *lines, text = text.split("\n")
            for line in lines:
                if not line.startswith("{"):
                    print(line)
                    continue
                said = json.loads(line)
                if "begins" in said:
                    began = said["begins"]
                else:
                    answers[said.pop("index")] = said
            if process.poll() is not None and not piece:
                break
            if time.time() - last > SECONDS:
                process.kill()
                answers[began] = {"name": cases[began]["name"], "where": "run", "result": "hangs"}
                process.wait()
                break
            if not piece:
                time.sleep(0.002)
        if began not in answers:
            answers[began] = {"name": cases[began]["name"], "where": "process", "result": process.returncode}
        start = began + 1
    maps = []
    try:
        player = Player()
        pointer = player.allocate(1 << 22)
        for name, spec in given["maps"]:
            address = 0 if spec["buffer"] < 0 else pointer + spec.get("offset", 0)
            result, bytes_ = encode(spec, address)
            maps.append([name, result, bytes_.hex() if result == 0 else "", address])
    except Failure as failure:
        print("maps", failure)
    driver = ctypes.c_int()
    CUDA.cuDriverGetVersion(ctypes.byref(driver))
    with open(to, "w", encoding="utf8") as file:
        json.dump({"driver": driver.value, "cases": [answers[index] for index in sorted(answers)], "maps": maps}, file)
    failed = [each for each in answers.values() if "where" in each]
    print(len(answers), "of", len(cases), "cases,", len(failed), "failed,", len(maps), "maps")
    for each in failed:
        print(each["name"], each["where"], each["result"])


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        parent(sys.argv[1], sys.argv[2])
