/** The parameters of a graph's nodes as they are written, against cuda.h where a toolkit is installed; how they are read, on any driver. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { GraphNodes, NodeParams, NodeType } from '../../src/cuda/graph-nodes.js'
import type { ContextHandle, GraphExecHandle, NodeHandle, Pointer } from '../../src/foundation/driver/handle-types.js'
import { NativeMemory } from '../../src/foundation/native/native-memory.js'
import { findHeader } from '../helpers/cuda-toolkit.js'
import { scratchFolder } from '../helpers/scratch.js'
import { mustOf } from './fake-parts.js'

/** What cuda.h calls each of them. */
const FIELDS: Readonly<Record<Exclude<keyof typeof NodeParams, 'SIZE'>, string>> = {
  TYPE: 'type',
  KERNEL_FUNC: 'kernel.func',
  KERNEL_GRID: 'kernel.gridDimX',
  KERNEL_BLOCK: 'kernel.blockDimX',
  KERNEL_SHARED_MEMORY: 'kernel.sharedMemBytes',
  KERNEL_PARAMS: 'kernel.kernelParams',
  MEMCPY_CONTEXT: 'memcpy.copyCtx',
  MEMCPY_PARAMS: 'memcpy.copyParams',
  MEMSET_DST: 'memset.dst',
  MEMSET_VALUE: 'memset.value',
  MEMSET_ELEMENT_SIZE: 'memset.elementSize',
  MEMSET_WIDTH: 'memset.width',
  MEMSET_HEIGHT: 'memset.height',
  MEMSET_CONTEXT: 'memset.ctx',
  GRAPH: 'graph.graph',
  MEM_OP_CONTEXT: 'memOp.ctx',
  MEM_OP_COUNT: 'memOp.count',
  MEM_OP_ARRAY: 'memOp.paramArray',
  CONDITION: 'conditional.handle',
  CONDITIONAL_TYPE: 'conditional.type',
  CONDITIONAL_SIZE: 'conditional.size',
  CONDITIONAL_GRAPHS: 'conditional.phGraph_out',
  CONDITIONAL_CONTEXT: 'conditional.ctx',
}
/** The words of a CUDA_MEMCPY3D that a copy of bytes has, as another test reads them back. */
const COPY_FIELDS: Readonly<Record<string, number>> = {
  srcMemoryType: 4,
  srcDevice: 6,
  dstMemoryType: 15,
  dstDevice: 17,
  WidthInBytes: 22,
  Height: 23,
  Depth: 24,
}

const header = findHeader('cuda.h')
const skip = typeof header === 'object' ? `no CUDA toolkit here: tried ${header.tried.join(', ')}` : false

describe('against cuda.h', { skip }, () => {
  it('the parameters of a node are where it has them', (t) => {
    if (typeof header !== 'string') return
    const expected = [
      ['sizeof(CUgraphNodeParams)', NodeParams.SIZE],
      ...Object.entries(FIELDS).map(([name, field]) => [
        `offsetof(CUgraphNodeParams, ${field})`,
        NodeParams[name as keyof typeof FIELDS],
      ]),
      ...Object.entries(COPY_FIELDS).map(([field, word]) => [`offsetof(CUDA_MEMCPY3D, ${field})`, 8 * word]),
      ...Object.entries(NodeType).map(([name, value]) => [`CU_GRAPH_NODE_TYPE_${name}`, value]),
    ] as const
    const source = join(scratchFolder('node-params'), 'layout.c')
    const lines = expected.map(([expression, value]) => `_Static_assert(${expression} == ${value}, "${expression}");`)
    writeFileSync(source, `#include <stddef.h>\n#include <cuda.h>\n${lines.join('\n')}\n`)
    const { error, status, stderr } = spawnSync('cc', ['-fsyntax-only', `-I${dirname(header)}`, source], {
      encoding: 'utf8',
    })
    if (error !== undefined) t.skip('no C compiler here')
    else assert.equal(status, 0, stderr)
  })
})

const [CONTEXT, EXEC, NODE, ARRAY] = [0x100 as ContextHandle, 0x200 as GraphExecHandle, 0x300 as NodeHandle, 0x400]

/** Every call with the struct that it is given. `reads` is what `cuGraphNodeGetParams` writes, or an old function. */
function nodesOn(library: object) {
  const calls: { readonly name: string; readonly words: readonly bigint[] }[] = []
  const noted =
    (name: string, at: number) =>
    (...args: number[]): number => {
      calls.push({ name, words: [...new NativeMemory(NodeParams.SIZE, args[at]).uint64] })
      return 0
    }
  const setters = {
    cuGraphNodeSetParams: noted('cuGraphNodeSetParams', 1),
    cuGraphExecNodeSetParams: noted('cuGraphExecNodeSetParams', 2),
  }
  const all = { ...setters, ...library }
  const parts = { library: all, must: mustOf(all), memory: new NativeMemory(64) }
  const nodes = new GraphNodes(parts as unknown as ConstructorParameters<typeof GraphNodes>[0])
  const last = (): readonly bigint[] => calls.at(-1)?.words ?? []
  return { nodes, calls, last, memory: parts.memory }
}

const word = (words: readonly bigint[], offset: number): bigint => words[offset / 8] ?? -1n
const nonZero = (words: readonly bigint[]): number => words.filter((value) => value !== 0n).length

describe('what a node is given', {
  skip: process.platform === 'linux' ? false : 'the native layer is for Linux',
}, () => {
  it('has its type and its fields, and zeros everywhere else', () => {
    const { nodes, last, calls } = nodesOn({})
    nodes.updateCopy(EXEC, NODE, CONTEXT, 0x7000_0000_0010 as Pointer, 0x7000_0000_0020 as Pointer, 5)
    const copy = NodeParams.MEMCPY_PARAMS
    assert.equal(word(last(), NodeParams.TYPE), BigInt(NodeType.MEMCPY))
    assert.equal(word(last(), NodeParams.MEMCPY_CONTEXT), BigInt(CONTEXT))
    assert.equal(word(last(), copy + 8 * 6), 0x7000_0000_0020n)
    assert.equal(word(last(), copy + 8 * 17), 0x7000_0000_0010n)
    assert.equal(nonZero(last()), 9)

    nodes.updateFill(EXEC, NODE, CONTEXT, { pointer: 0x10 as Pointer, value: 0xffff_fffe, width: 4, count: 3 })
    assert.equal(word(last(), NodeParams.MEMSET_VALUE), 0x4_ffff_fffen)
    assert.equal(nonZero(last()), 6)

    const shape = { cooperative: false, cluster: undefined, attributes: undefined }
    nodes.updateKernel(EXEC, NODE, {
      func: 0x55,
      params: 0x66,
      shape: { ...shape, grid: [1, 2, 3], block: [4, 5, 6], sharedMemory: 7 },
    })
    assert.deepEqual(last().slice(0, 9), [0n, 0n, 0x55n, 0x2_0000_0001n, 0x4_0000_0003n, 0x6_0000_0005n, 7n, 0x66n, 0n])

    nodes.setOperations(NODE, CONTEXT, ARRAY, 3)
    assert.deepEqual(last().slice(0, 6), [BigInt(NodeType.BATCH_MEM_OP), 0n, BigInt(CONTEXT), 3n, BigInt(ARRAY), 0n])
    assert.deepEqual(
      calls.map(({ name }) => name),
      [...Array(3).fill('cuGraphExecNodeSetParams'), 'cuGraphNodeSetParams'],
    )
  })

  it('is read by the generic function, or by the old one of its kind where the driver lacks that', () => {
    const DST = 0x7000_0000_0000n
    const write = (at: number): number => {
      new NativeMemory(8, at).uint64[0] = DST
      return 0
    }
    const drivers: Readonly<Record<string, object>> = {
      generic: { cuGraphNodeGetParams: (_: number, at: number) => write(at + NodeParams.MEMSET_DST) },
      old: { cuGraphMemsetNodeGetParams: (_: number, at: number) => write(at) },
    }
    for (const [age, library] of Object.entries(drivers)) {
      const { nodes, last } = nodesOn(library)
      nodes.resetFill(EXEC, NODE, CONTEXT)
      assert.deepEqual(
        [word(last(), NodeParams.TYPE), word(last(), NodeParams.MEMSET_DST), word(last(), NodeParams.MEMSET_CONTEXT)],
        [BigInt(NodeType.MEMSET), DST, BigInt(CONTEXT)],
        age,
      )
    }
  })
})
