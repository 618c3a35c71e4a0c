/** The answers of the simulated device. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DEVICE_ATTRIBUTES } from '../../src/foundation/driver/device-attributes.js'
import { simulatedAttribute } from '../../src/simulator/properties.js'

/** The attributes with these numbers were asked of an H200, whose driver refused those above. */
const ASKED = 161
const ANSWERED = 147

test('each attribute has the answer of an H200: one that is added here is asked there first', () => {
  assert.equal(Object.keys(DEVICE_ATTRIBUTES).length, ASKED)
  for (const [name, number] of Object.entries(DEVICE_ATTRIBUTES)) {
    assert.equal(typeof simulatedAttribute(number), number <= ANSWERED ? 'number' : 'undefined', name)
  }
  assert.equal(simulatedAttribute(100_000), undefined)
})
