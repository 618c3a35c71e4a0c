/** C4: what keeps the process alive. Each scenario runs in a process of its own: children/scenarios.ts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../helpers/suite.js'
import { runScenario } from './child.js'
import type { Scenario } from './children/scenarios.js'

const WAITS_IN_A_WORKER = [
  ...[
    'stream',
    'event',
    'an event that is recorded again',
    'device',
    'a stream that waits for it',
    'upload',
    'download',
  ],
  ...['large upload', 'large download', 'uploader', 'downloader', 'host function', 'callback', 'promise', 'value'],
  ...['an aborted wait for a stream', 'an aborted wait for an event', 'an aborted wait for the device'],
  ...['all at once', 'disposal'],
]

onEveryBackend('the life of the process', (bench) => {
  const ends = async (scenario: Scenario, expected: string): Promise<void> => {
    const { code, stdout, stderr } = await runScenario(bench, scenario)
    assert.equal(stdout, expected, stderr)
    assert.equal(code, 0, `the process ended with ${code}: ${stderr}`)
  }

  for (const what of ['Stream', 'Event', 'Device'] as const) {
    test(`C4 a pending finished() keeps the process alive: ${what}`, () =>
      ends(`pending${what}`, 'waiting\nfinished\nend\n'))
  }

  test('C4 in a worker that nothing else keeps alive, every kind of wait comes to its end', () =>
    ends('waitsInAWorker', WAITS_IN_A_WORKER.map((way) => `${way}\n`).join('')))

  test('C4 a pending host function keeps the process alive', () =>
    ends('pendingHostFunction', 'waiting\nhost function\nend\n'))

  test('C4 a pending callback keeps the process alive', () => ends('pendingCallback', 'waiting\ncallback 0\nend\n'))

  test('C4 a host function queued and left alone runs before the process ends', () =>
    ends('hostFunctionAlone', 'host function\nend\n'))

  test('C4 streams, events and pending work keep nothing alive', () => ends('nothingPending', 'end\n'))

  test('C4 a downloader that is not read keeps nothing alive', () => ends('downloaderNotRead', 'end\n'))

  test('C4 memory that waits to be freed keeps nothing alive: of a stream that was closed while it captured', () =>
    ends('closedAllocationStream', 'end\n'))

  test('C4 memory that waits to be freed keeps nothing alive: of one that was closed in the capture of another', () =>
    ends('closedJoinedAllocationStream', 'end\n'))

  test('C4 a wait that was aborted keeps nothing alive', () => ends('aborted', 'aborted\nend\n'))

  test('C4 once all waits are settled, nothing keeps the process alive', () => ends('settled', 'finished\nend\n'))
})
