/** What NVRTC says of an option that it refuses, as the library says it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refusedOption } from '../../src/cu/cu-options.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'

test('an option that this NVRTC does not know: what was meant, or that others know it', { skip: lacksNvrtc() }, () => {
  const rows: readonly (readonly [option: string, says: RegExp])[] = [
    ['--default-device', /'--default-device', .* does not know: other versions do: leave it out/],
    ['--std=c++26', /'--std=c\+\+26', .* does not know: other versions do/],
    ['--default-devise', /did you mean '--default-device'\?$/],
    ['--maxregcount=32', /did you mean '--maxrregcount'\?$/],
    ['--expt-relaxed-constexpr', /not all of nvcc's options are NVRTC's: leave it out$/],
  ]
  for (const [option, says] of rows) {
    const log = `nvrtc: error: unrecognized option ${option} found`
    assert.match(refusedOption(log, 'compute_75')?.message ?? '', says)
  }
})
