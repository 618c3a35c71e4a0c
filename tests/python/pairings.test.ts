/**
 * Streams, events and memory between cuda-streams and each other library, all of them loaded in this one process. Every
 * exchange has a counterpart without its wait, whose writer is held until the reader is done: that one reads what was there before.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it, test } from 'node:test'
import type { Device } from 'cuda-streams'
import { holdOn } from '../../examples/hold.js'
import { delayOn } from '../../examples/python/delay.js'
import { exchangesOf, Table, wrongTries, wrongWithout } from '../../examples/python/exchanges.js'
import type { Library } from '../../examples/python/library.js'
import { realPartners, simulatedDevice, simulatedPartner } from '../helpers/partners.js'

const TRIES = 10

function pairings(library: Library, device: Device): void {
  describe(`${library.name} [${device.driver}]`, { timeout: 300_000 }, () => {
    let table: Table

    before(() => {
      table = new Table(device, library, delayOn(device), holdOn(device))
    })
    after(() => table.close())

    for (const exchange of exchangesOf(library)) {
      it(`${exchange.title}: right every time`, async () => {
        assert.deepEqual(await wrongTries(table, exchange, TRIES), [])
      })

      it(`${exchange.title}: too early without the wait`, async () => {
        // Libraries load code at first use, which waits for what is held.
        assert.deepEqual(await wrongTries(table, exchange, 1), [])
        assert.equal(await wrongWithout(table, exchange), undefined)
      })
    }
  })
}

const device = simulatedDevice()
pairings(simulatedPartner(device), device)

const real = realPartners()
if (typeof real === 'string') test('the Python libraries', { skip: real }, () => {})
else {
  test('every library that is here opens', () => {
    const texts = real.broken.map(({ name, error }) => `${name}: ${error.message}`)
    assert.equal(texts.length, 0, texts.join('\n'))
    assert.ok(real.libraries.length > 0, 'no library is here')
  })
  for (const library of real.libraries) pairings(library, real.device)
}
