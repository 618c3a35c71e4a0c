/** Tensor maps are refused where the driver of an H200 has refused them (tests/ptx/hopper records it), and nowhere else. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TENSOR_TYPES, type TensorType, whyMapIsRefused } from '../../../src/foundation/driver/tensor-maps.js'
import { tensorMapOf } from '../../ptx/hopper/hopper-machine.js'
import { loadRecording } from '../../ptx/hopper/recording.js'
import { ENCODED_MAPS } from '../../ptx/hopper/tensor-cases.js'

const TYPES = Object.keys(TENSOR_TYPES) as TensorType[]

test('a map is refused with a reason where the driver refuses it', () => {
  const specs = new Map(ENCODED_MAPS)
  let [taken, refused] = [0, 0]
  for (const [name, result, , address] of loadRecording().maps) {
    const spec = specs.get(name)
    const type = TYPES[spec?.type ?? -1]
    if (spec === undefined || type === undefined) continue
    const { interleave = 0, swizzle = 0, l2 = 0, fill = 0 } = spec
    // No option of ours has other numbers of the enumerations.
    if (![0, 1, 2].includes(interleave) || ![0, 1, 2, 3].includes(swizzle) || ![0, 1, 2, 3].includes(l2) || fill > 1)
      continue
    const why = whyMapIsRefused({ ...tensorMapOf(spec, address), pointer: address, type })
    assert.equal(why !== undefined, result !== 0, `${name}: ${why}`)
    if (result === 0) taken++
    else refused++
  }
  assert.ok(taken > 100 && refused > 50, `${taken} and ${refused}`)
})
