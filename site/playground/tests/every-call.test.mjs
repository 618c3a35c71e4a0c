// The random programs that are compared between Node and the page call everything that makes sense in a page, and it works there.
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { entryPoints } from '../../../dist/tests/catalogue/entry-points.js'
import { publicMembers } from '../../../dist/tests/catalogue/members.js'
import { buildRunner, membersUsed } from './in-node.mjs'
import { RANDOM_PROGRAMS, randomProgram } from './random-program.mjs'

/** What they do not call, by the reason. A name alone means all members of the class. */
const NOT_CALLED = {
  'of the other entry points there is no library in a page, or they watch: programs.mjs has some': [...entryPoints]
    .filter(([name]) => name !== 'cuda-streams' && name !== 'cuda-streams/sim')
    .flatMap(([, module]) => Object.keys(module)),
  'is no constructor for programs, or a constant': [
    ...['Device', 'DeviceBuffer', 'PinnedBuffer', 'Graph', 'GraphExec', 'GreenContext'].map((name) => `new ${name}`),
    ...['new DefinedKernel', 'new Kernel', 'new Module', 'new CudaError', 'CudaError#name'],
  ],
  'it needs NVRTC, which no page has: playground.test.mjs has its error': ['Program'],
  'another process: a page has none': [
    ...['DeviceBuffer.fromIpcHandle', 'DeviceBuffer#ipcHandle', 'Event.fromIpcHandle', 'Event#ipcHandle'],
  ],
  'a page has no SharedArrayBuffer, and keeps no other array in place': ['PinnedBuffer.from'],
  'they queue no work: programs.mjs has them': ['elements', 'struct'],
  'they are parts of graphs, which a page plays as Node does: tests/conformance/conditional-graphs.test.ts': [
    'Condition',
    ...['createCondition', 'if', 'while', 'switch'].map((name) => `Stream#${name}`),
  ],
  'kernels of CUDA C++ take them: conformance.test.mjs plays their tests on what is in a page': [
    ...['OpaqueArray', 'TextureObject', 'SurfaceObject', 'TensorMap', 'DeviceBuffer#tensorMap'],
    ...['createArray', 'createTexture', 'createSurface'].map((name) => `Device#${name}`),
  ],
  'they lend streams, and queue nothing: tests/conformance/stream-pool.test.ts': ['StreamPool', 'StreamLane'],
  'the page explores by itself': ['explore', 'replay', 'simulate'],
  'it loses the machine: programs.mjs has one': ['fault'],
  "web streams are the browser's own, with other turns and stacks: programs.mjs has them, for their bytes": [
    'Stream#uploader',
    'Stream#downloader',
  ],
}

const members = publicMembers()
const listed = Object.values(NOT_CALLED).flat()
const classOf = (member) => member.replace(/^new /, '').split(/[#.]/)[0]
const isListed = (member) => listed.includes(member) || listed.includes(classOf(member))

describe('random programs', () => {
  const codes = Array.from({ length: RANDOM_PROGRAMS }, (_, at) => randomProgram(at + 1))
  let used

  before(async () => {
    await buildRunner({ withLibrary: false })
    const called = new Set(await membersUsed(codes))
    const text = codes.join('\n')
    // Constructors and functions cannot be watched: the text has them.
    const has = (member) => new RegExp(`\\b${member}\\(|\\[${member}\\]`).test(text)
    used = new Set(members.filter((member) => called.has(member) || (!/[#.]/.test(member) && has(member))))
  })

  it('call each public member that makes sense in a page', () => {
    const forgotten = members.filter((member) => !used.has(member) && !isListed(member))
    assert.deepEqual(forgotten, [], 'Let random-program.mjs call it, or say in NOT_CALLED why not')
  })

  it('do not call what the list leaves out, and it leaves out nothing that is not there', () => {
    assert.deepEqual([...used].filter(isListed), [])
    const gone = listed.filter((name) => !members.some((member) => member === name || classOf(member) === name))
    assert.deepEqual(gone, [])
  })
})
