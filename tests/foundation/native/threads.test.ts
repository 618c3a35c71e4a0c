/** The process registry: one for the process, even if several copies of the package are loaded, and laid out as C has it. */
import assert from 'node:assert/strict'
import { copyFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import {
  CAPTURES_AT,
  COUNTS_AT,
  Head,
  LABEL_BYTES,
  REGISTRY_WORDS,
  SLOTS,
  Slot,
  SPARE_AT,
} from '../../../src/cuda/host-functions/process-registry.js'
import { own } from '../../../src/foundation/native/c-functions.js'
import { type Layer, layer, layerFile } from '../../../src/foundation/native/layer.js'
import { scratchFolder } from '../../helpers/scratch.js'
import { skip } from './compile.js'

/** Where a copy of the layer has the registry. */
function registryOf(file: string): number {
  const copy: Layer = createRequire(import.meta.url)(file)
  const buffer = new ArrayBuffer(64)
  new BigUint64Array(buffer)[0] = BigInt(copy.functions['processRegistry'] ?? 0)
  // The calls that return an address are the seventh kind.
  copy.bind(buffer, 0, 6)()
  return new Float64Array(buffer)[1] ?? 0
}

if (!isMainThread) {
  const { file, barrier }: { readonly file: string; readonly barrier: Int32Array } = workerData
  Atomics.sub(barrier, 0, 1)
  while (Atomics.load(barrier, 0) > 0);
  parentPort?.postMessage(registryOf(file))
} else {
  test('copies that threads load at the same time, and later ones, have one registry', { skip }, async () => {
    const folder = scratchFolder('copies')
    const copies = [1, 2, 3, 4].map((nth) => {
      const copy = join(folder, `copy-${nth}.node`)
      copyFileSync(layerFile(), copy)
      return copy
    })
    const barrier = new Int32Array(new SharedArrayBuffer(4)).fill(copies.length)
    const registries = await Promise.all(
      copies.map((file) => {
        const worker = new Worker(new URL(import.meta.url), { workerData: { file, barrier } })
        return new Promise<number>((resolve, reject) => worker.on('message', resolve).on('error', reject))
      }),
    )
    assert.ok((registries[0] ?? 0) > 0)
    assert.deepEqual(
      new Set([...registries, own().processRegistry(), registryOf(layerFile()), ...copies.map(registryOf)]).size,
      1,
    )
  })

  test('JavaScript and C have the fields of the registry at the same places', { skip }, () => {
    const { WORDS: HEAD_WORDS, ...head } = Head
    const { WORDS: SLOT_WORDS, ...slot } = Slot
    const places = {
      ...head,
      SLOTS_AT: HEAD_WORDS,
      ...slot,
      SLOT_WORDS,
      SLOTS,
      COUNTS_AT,
      SPARE_AT,
      CAPTURES_AT,
      REGISTRY_WORDS,
      LABEL_BYTES,
    }
    assert.deepEqual({ ...layer().registryLayout() }, places)
  })
}
