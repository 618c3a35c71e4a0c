/**
 * What becomes of a process whose own kernel goes wrong: a clear error everywhere, nothing that hangs, and a normal end.
 * Each kernel loses the device, so each case has a process of its own.
 */
import assert from 'node:assert/strict'
import { CudaError, Module, type Stream } from 'cuda-streams'
import type { Workbench } from '../helpers/workbench.js'
import type { Case } from './cases.js'

interface BadKernel {
  /** The body of a kernel in PTX, which is given the address of four bytes. */
  readonly body: string
  readonly number: number
  readonly code: string
}

const BAD_KERNELS: Readonly<Record<string, BadKernel>> = {
  'a kernel that traps': { body: 'trap;', number: 719, code: 'CUDA_ERROR_LAUNCH_FAILED' },
  'a kernel that writes where nothing is': {
    body: 'mov.u64 %where, 8; st.global.u32 [%where], 1;',
    number: 700,
    code: 'CUDA_ERROR_ILLEGAL_ADDRESS',
  },
  'a kernel that writes far beyond its buffer': {
    body: 'ld.param.u64 %where, [at]; add.u64 %where, %where, 0x400000000000; st.global.u32 [%where], 1;',
    number: 700,
    code: 'CUDA_ERROR_ILLEGAL_ADDRESS',
  },
  'a kernel that writes at an odd address': {
    body: 'ld.param.u64 %where, [at]; add.u64 %where, %where, 1; st.global.u32 [%where], 1;',
    number: 716,
    code: 'CUDA_ERROR_MISALIGNED_ADDRESS',
  },
}

/** Loads it, in which CUDA waits for the whole device: before any stream is held. The result launches it. */
function loadBad(bench: Workbench, { body }: BadKernel): (stream: Stream) => void {
  const ptx = `.version 7.0
.target sm_70
.address_size 64
.visible .entry bad(.param .u64 at) { .reg .u64 %where; ${body} ret; }
`
  const kernel = Module.load(ptx, { device: bench.device }).kernel('bad', ['out u32*'])
  return (stream) => void stream.launch(kernel, { grid: 1, block: 1 }, bench.device.alloc(4, { stream }))
}

function caseOf(bad: BadKernel): Case {
  return async (bench) => {
    const [stream, other] = [bench.stream(), bench.stream()]
    const isIt = (error: unknown): true => {
      assert.ok(error instanceof CudaError, `a CudaError is expected, not ${error}`)
      assert.deepEqual([error.number, error.code], [bad.number, bad.code])
      return true
    }
    const pinned = bench.device.allocPinned(1024)
    const buffer = bench.device.alloc(1024, { stream: other })
    const launch = loadBad(bench, bad)
    const latch = bench.latch(stream)
    launch(stream)
    let dropped = true
    const statuses: number[] = []
    stream.launchHostFunc(() => {
      dropped = false
    })
    const told = new Promise<void>((resolve) => {
      stream.addCallback((_stream, status) => {
        statuses.push(status)
        resolve()
      }, undefined)
    })
    other.wait(stream)
    const pending = [
      stream.finished(),
      other.finished(),
      bench.device.finished(),
      stream.record().finished(),
      stream.download(buffer),
    ]
    for (const promise of pending) promise.catch(() => {})
    latch.open()
    for (const promise of pending) await assert.rejects(promise, isIt)

    for (const call of [
      () => stream.query(),
      () => stream.synchronize(),
      () => stream.record(),
      () => stream.copy(pinned, buffer),
      () => stream.fill(buffer, 0),
      () => void stream.upload(buffer, new Uint8Array(1024)),
      () => bench.device.alloc(4, { stream }),
      () => bench.device.synchronize(),
    ]) {
      assert.throws(call, isIt)
    }
    await assert.rejects(stream.download(buffer), isIt)
    await told
    assert.equal(dropped, true)
    assert.deepEqual(statuses, [bad.number])
    for (const closable of [buffer, pinned, stream, other]) closable.close()
    assert.equal(pinned.closed, true)
  }
}

export const badKernelCases: Readonly<Record<string, Case>> = Object.fromEntries(
  Object.entries(BAD_KERNELS).map(([name, bad]) => [name, caseOf(bad)]),
)
