/** What V8 is told of memory outside of its heap, and asked about what was collected. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { layer } from '../../../src/foundation/native/layer.js'

describe('what V8 is told and asked', { skip: process.versions['bun'] !== undefined && 'another collector' }, () => {
  const GIB = 2 ** 30

  test('bytes outside of the heap are added and taken away', () => {
    const { adjustExternalMemory } = layer()
    const before = adjustExternalMemory(0)
    assert.equal(adjustExternalMemory(1000) - before, 1000)
    assert.equal(adjustExternalMemory(-1000) - before, 0)
  })

  test('more than V8 allows are collected during the call, and a weak reference knows what was', () => {
    const { adjustExternalMemory, weakReference, referent, deleteReference } = layer()
    const kept = { name: 'kept' }
    // The frame that has the others is gone then.
    const referencesOf = (...objects: readonly object[]): number[] => objects.map((each) => weakReference(each))
    const forget = (): number[] => referencesOf(kept, ...Array.from({ length: 100 }, () => ({})))
    const references = forget()
    assert.equal(referent(references[0] ?? 0), kept)
    // The first may only end a collection that keeps what was made since it began.
    for (let round = 0; round < 2; round += 1) {
      adjustExternalMemory(1024 * GIB)
      adjustExternalMemory(-1024 * GIB)
    }
    const left = references.filter((each) => referent(each) !== undefined)
    for (const each of references) deleteReference(each)
    assert.deepEqual(left, references.slice(0, 1))
    assert.equal(kept.name, 'kept')
  })
})
