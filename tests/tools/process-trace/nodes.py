"""Graphs whose nodes are added one by one, each with a missing edge, and the same with it: `python nodes.py racy|right [names]`."""
import ctypes
import sys
from ctypes import byref, c_int, c_longlong, c_size_t, c_uint, c_ulonglong, c_void_p

import torch

RIGHT = sys.argv[1] == 'right'
N = 1 << 20
driver = ctypes.CDLL('libcuda.so.1')
one, two = torch.cuda.Stream(), torch.cuda.Stream()
x, y, z = (torch.zeros(N, device='cuda') for _ in range(3))
torch.cuda.synchronize()
runtime = ctypes.CDLL('libcudart.so.13' if torch.version.cuda.startswith('13') else 'libcudart.so.12')

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry produce(.param .u64 to) {
  .reg .b64 %rd<3>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [to];
  cvta.to.global.u64 %rd2, %rd1;
  mov.f32 %f1, 0f3F800000;
  st.global.f32 [%rd2], %f1;
  ret;
}
.visible .entry consume(.param .u64 from, .param .u64 to) {
  .reg .b64 %rd<5>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  ld.global.f32 %f1, [%rd3];
  st.global.f32 [%rd4], %f1;
  ret;
}
"""


class Kernel(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS, version 2 and 3."""

    _fields_ = [
        ('function', c_void_p), ('grid', c_uint * 3), ('block', c_uint * 3), ('shared', c_uint), ('arguments', c_void_p), ('extra', c_void_p),
        ('kernel', c_void_p), ('context', c_void_p),
    ]

    def __init__(self, function, *tensors):
        self.words = [c_void_p(tensor.data_ptr()) for tensor in tensors]
        self.pointers = (c_void_p * len(tensors))(*[ctypes.addressof(word) for word in self.words])
        super().__init__(function, (1, 1, 1), (1, 1, 1), 0, ctypes.addressof(self.pointers), None, None, None)


class AnyParameters(ctypes.Union):
    _fields_ = [('kernel', Kernel), ('words', c_longlong * 29)]


class AnyNode(ctypes.Structure):
    """CUgraphNodeParams."""

    _fields_ = [('type', c_int), ('reserved', c_int * 3), ('of', AnyParameters), ('end', c_longlong)]


class Fill(ctypes.Structure):
    """cudaMemsetParams."""

    _fields_ = [('to', c_void_p), ('pitch', c_size_t), ('value', c_uint), ('width', c_uint), ('columns', c_size_t), ('rows', c_size_t)]


def succeed(result):
    assert result == 0, f'the call ends with {result}'


def made(function, *arguments):
    """The handle that a call of CUDA makes."""
    handle = c_void_p()
    succeed(function(byref(handle), *arguments))
    return handle


def nodes(*all):
    """A list of nodes for a call, and their number."""
    return (c_void_p * max(1, len(all)))(*[node.value for node in all]), c_size_t(len(all))


def launch(graph, stream=one):
    execution = made(driver.cuGraphInstantiateWithFlags, graph, c_ulonglong(0))
    succeed(driver.cuGraphLaunch(execution, c_void_p(stream.cuda_stream)))
    return execution


module = made(driver.cuModuleLoadData, PTX)
produce = made(driver.cuModuleGetFunction, module, b'produce').value
consume = made(driver.cuModuleGetFunction, module, b'consume').value


def fork_join():
    graph = made(driver.cuGraphCreate, c_uint(0))
    first = made(driver.cuGraphAddKernelNode_v2, graph, *nodes(), byref(Kernel(produce, x)))
    left = made(driver.cuGraphAddKernelNode_v2, graph, *nodes(first), byref(Kernel(consume, x, y)))
    right = made(driver.cuGraphAddKernelNode_v2, graph, *nodes(first), byref(Kernel(consume, x, z)))
    before = [left, right] if RIGHT else [left]
    made(driver.cuGraphAddKernelNode_v2, graph, *nodes(*before), byref(Kernel(produce, x)))
    launch(graph)


def diamond():
    """Of the functions of the CUDA runtime."""
    graph = made(runtime.cudaGraphCreate, c_uint(0))
    first = made(runtime.cudaGraphAddMemsetNode, graph, *nodes(), byref(Fill(x.data_ptr(), 0, 0, 4, N, 1)))
    left = made(runtime.cudaGraphAddMemcpyNode1D, graph, *nodes(first), c_void_p(y.data_ptr()), c_void_p(x.data_ptr()), c_size_t(4 * N), c_int(3))
    right = made(runtime.cudaGraphAddMemsetNode, graph, *nodes(first), byref(Fill(z.data_ptr(), 0, 1, 4, N, 1)))
    join = made(runtime.cudaGraphAddEmptyNode, graph, *nodes(left))
    if RIGHT:
        succeed(driver.cuGraphAddDependencies_v2(graph, byref(right), byref(join), None, c_size_t(1)))
    made(runtime.cudaGraphAddMemcpyNode1D, graph, *nodes(join), c_void_p(y.data_ptr()), c_void_p(z.data_ptr()), c_size_t(4 * N), c_int(3))
    launch(graph)


def child_graph():
    """A captured graph within one whose nodes are of any type."""
    captured = c_void_p()
    succeed(driver.cuStreamBeginCapture_v2(c_void_p(one.cuda_stream), c_int(2)))
    succeed(driver.cuMemsetD32Async(c_ulonglong(x.data_ptr()), c_uint(1), c_size_t(N), c_void_p(one.cuda_stream)))
    succeed(driver.cuStreamEndCapture(c_void_p(one.cuda_stream), byref(captured)))
    graph = made(driver.cuGraphCreate, c_uint(0))
    child = made(driver.cuGraphAddChildGraphNode, graph, *nodes(), captured)
    succeed(driver.cuGraphDestroy(captured))
    after, count = nodes(child) if RIGHT else nodes()
    last = AnyNode(0, (0, 0, 0), AnyParameters(kernel=(kernel := Kernel(consume, x, y))))
    made(driver.cuGraphAddNode_v2, graph, after, None, count, byref(last))
    del kernel
    launch(graph)


def changed_kernel():
    """The first launch is right, and so are the nodes of the graph; an instance is given other memory."""
    graph = made(driver.cuGraphCreate, c_uint(0))
    first = made(driver.cuGraphAddKernelNode_v2, graph, *nodes(), byref(Kernel(produce, x)))
    last = made(driver.cuGraphAddKernelNode_v2, graph, *nodes(), byref(Kernel(consume, y, z)))
    execution = launch(graph)
    one.synchronize()
    succeed(driver.cuGraphExecKernelNodeSetParams_v2(execution, last, byref(Kernel(consume, y if RIGHT else x, z))))
    succeed(driver.cuGraphLaunch(execution, c_void_p(one.cuda_stream)))
    return first


def two_streams():
    graph, other = made(driver.cuGraphCreate, c_uint(0)), made(driver.cuGraphCreate, c_uint(0))
    made(driver.cuGraphAddKernelNode_v2, graph, *nodes(), byref(Kernel(produce, x)))
    made(driver.cuGraphAddKernelNode_v2, other, *nodes(), byref(Kernel(consume, x, y)))
    launch(graph)
    if RIGHT:
        two.wait_stream(one)
    launch(other, two)


for program in [fork_join, diamond, child_graph, changed_kernel, two_streams]:
    if len(sys.argv) < 3 or program.__name__ in sys.argv[2:]:
        program()
        torch.cuda.synchronize()
