/** The answers of the simulated device. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DEVICE_ATTRIBUTES } from '../../../src/driver/device-attributes.js'
import { simulatedAttribute } from '../../../src/driver/sim/properties.js'

/** All were asked of an H200; those without a row of their own in properties.ts are 0 there. */
const ASKED = 147

test('each attribute has the answer of an H200: one that is added here is asked there first', () => {
  assert.equal(Object.keys(DEVICE_ATTRIBUTES).length, ASKED)
  for (const number of Object.values(DEVICE_ATTRIBUTES)) assert.equal(typeof simulatedAttribute(number), 'number')
  assert.equal(simulatedAttribute(100_000), undefined)
})
