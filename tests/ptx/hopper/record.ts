/**
 * Records what a GPU answers to the cases of this folder. The GPU's machine needs Python alone:
 *
 *     node dist/tests/ptx/hopper/record.js write cases.json
 *     python3 tests/ptx/hopper/record.py cases.json answers.json   # on the machine with the GPU
 *     node dist/tests/ptx/hopper/record.js read answers.json
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { HOPPER_CASES, type HopperRecording, saveRecording } from './recording.js'
import { ENCODED_MAPS } from './tensor-cases.js'

const [, , action, file = ''] = process.argv
if (action === 'write') {
  const cases = HOPPER_CASES.map((each) => ({
    ...each,
    buffers: each.buffers.map((bytes) => Buffer.from(bytes).toString('base64')),
  }))
  writeFileSync(file, JSON.stringify({ cases, maps: ENCODED_MAPS }))
} else if (action === 'read') saveRecording(JSON.parse(readFileSync(file, 'utf8')) as HopperRecording)
else throw new Error('Say write or read, and a file')
