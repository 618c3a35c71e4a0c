/** Loading and unloading code while host functions are pending: CUDA waits for the whole device in both. */
import assert from 'node:assert/strict'
import { Module } from 'cuda-streams'
import type { Case } from './cases.js'

const PTX = `.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
`

const loading: Case = async (bench) => {
  if (bench.name === 'sim') return
  const [stream, other] = [bench.stream(), bench.stream()]
  let ran = 0
  for (const each of [stream, other]) {
    each.launchHostFunc(() => {
      ran += 1
    })
  }
  const module = Module.load(PTX, { device: bench.device })
  assert.equal(ran, 2, 'what CUDA would wait for has run before')
  const kernel = module.kernel('nothing', [])
  stream.launchHostFunc(() => {
    ran += 1
  })
  other.launch(kernel, { grid: 1, block: 1 })
  module.close()
  assert.equal(ran, 2, 'closing runs nothing')
  await stream.finished()
  assert.equal(ran, 3)
}

const loadingInside: Case = async (bench) => {
  if (bench.name === 'sim') return
  const stream = bench.stream()
  let code: unknown
  stream.launchHostFunc(() => {
    try {
      Module.load(PTX, { device: bench.device })
    } catch (error) {
      code = (error as { code?: unknown }).code
    }
  })
  await stream.finished()
  assert.equal(code, 'ERR_DEADLOCK')
  Module.load(PTX, { device: bench.device }).close()
}

export const loadingCases = {
  'loading and unloading code while streams stand at host functions': loading,
  'loading code inside a host function is ERR_DEADLOCK': loadingInside,
} satisfies Record<string, Case>
