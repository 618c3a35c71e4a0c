/** Events and devices. */
import assert from 'node:assert/strict'
import { type Device, Event, type EventOptions } from 'cuda-streams'
import { type Call, closing, withOptions } from './call.js'

import { ANOTHER_PROCESS, EVENT_OPTIONS, OWNED } from './values.js'

const events: readonly Call[] = [
  withOptions({
    name: 'new Event()',
    members: ['new Event'],
    act: 'makes',
    options: { values: { device: ({ device }) => device, ...EVENT_OPTIONS } },
    prepare:
      (scene) =>
      (options: EventOptions & { device?: Device } = { device: scene.device }) =>
        scene.keep(new Event(options)).handle,
  }),
  withOptions({
    name: 'device.createEvent()',
    members: ['Device#createEvent'],
    act: 'makes',
    options: { values: EVENT_OPTIONS, others: ['device'] },
    prepare:
      (scene) =>
      (options: EventOptions = { timing: true }) =>
        scene.keep(scene.device.createEvent(options)).handle,
  }),
  withOptions({
    name: 'Event.from()',
    members: ['Event.from'],
    act: 'makes',
    event: 'behind',
    uses: ['the event'],
    options: { values: OWNED, closedCodes: ['ERR_INVALID_HANDLE'] },
    prepare:
      (scene) =>
      (options: Parameters<typeof Event.from>[1] = { device: scene.device }) =>
        scene.keep(Event.from(scene.event.handle, options)),
    answers: (scene, value) => assert.ok((value as Event).equals(scene.event)),
  }),
  withOptions({
    name: 'Event.fromIpcHandle()',
    members: ['Event.fromIpcHandle'],
    act: 'makes',
    refuses: () => ['ERR_INVALID_HANDLE'],
    options: { values: { device: ({ device }) => device }, apart: ANOTHER_PROCESS },
    prepare:
      ({ device }) =>
      (options = { device }) =>
        Event.fromIpcHandle(new Uint8Array(64), options),
  }),
  {
    name: 'event.ipcHandle()',
    members: ['Event#ipcHandle'],
    act: 'makes',
    prepare: (scene) => {
      const event = scene.keep(scene.device.createEvent({ interprocess: true }))
      return () => event.ipcHandle()
    },
    answers: (_scene, value) => assert.equal((value as Uint8Array).length, 64),
  },
  {
    name: 'event.share() and Event.from()',
    members: ['Event#share', 'Event.from'],
    act: 'makes',
    event: 'behind',
    prepare: (scene) => () => Event.from(scene.event.share()),
    answers: (scene, value) => assert.equal(value, scene.event),
  },
  {
    name: 'event.query() of the outside',
    members: ['Event#query'],
    act: 'asks an outside event',
    event: 'before',
    prepare: (scene) => () => scene.event.query(),
    answers: (_scene, value) => assert.equal(value, true),
  },
  {
    name: 'event.query() behind the host function',
    members: [],
    act: 'asks an inside event',
    event: 'behind',
    prepare: (scene) => () => scene.event.query(),
    answers: (scene, value) => assert.ok(!(value && scene.isBehind), 'it is done before the host function has run'),
  },
  {
    name: 'event.query() of one that was never recorded',
    members: [],
    act: 'asks an outside event',
    event: 'never',
    prepare: (scene) => () => scene.event.query(),
    answers: (_scene, value) => assert.equal(value, true),
  },
  {
    name: 'event.synchronize() of the outside',
    members: ['Event#synchronize'],
    act: 'asks an outside event',
    waits: 'perhaps',
    event: 'before',
    prepare: (scene) => () => scene.event.synchronize(),
  },
  {
    name: 'event.synchronize() behind the host function',
    members: [],
    act: 'asks an inside event',
    waits: 'event',
    event: 'behind',
    uses: ['the event'],
    withoutStream: true,
    prepare: (scene) => () => scene.event.synchronize(),
  },
  {
    name: 'event.synchronize() of one that was never recorded',
    members: [],
    act: 'asks an outside event',
    waits: 'perhaps',
    event: 'never',
    prepare: (scene) => () => scene.event.synchronize(),
  },
  {
    name: 'event.finished() of the outside',
    members: ['Event#finished'],
    act: 'makes',
    event: 'before',
    prepare: (scene) => () => scene.event.finished(),
  },
  withOptions({
    name: 'event.finished() behind the host function',
    members: ['Event#finished'],
    act: 'promises an inside event',
    event: 'behind',
    uses: ['the event'],
    options: { values: { signal: () => new AbortController().signal } },
    prepare: (scene) => (options) => scene.event.finished(options),
    answers: ({ ran, isBehind }) => assert.ok(ran === 1 || !isBehind, 'it was done before the host function has run'),
  }),
  {
    name: 'event.finished() of one that was never recorded',
    members: [],
    act: 'makes',
    event: 'never',
    prepare: (scene) => () => scene.event.finished(),
  },
  {
    name: 'event.elapsedSince()',
    members: ['Event#elapsedSince'],
    act: 'makes',
    event: 'before',
    prepare: (scene) => {
      const start = scene.keep(scene.stream.record({ timing: true }))
      return () => scene.event.elapsedSince(start)
    },
    answers: (_scene, value) => assert.ok((value as number) >= 0),
  },
  ...closing('event', 'Event', ({ event }) => event, { event: 'behind' }),
]

const devices: readonly Call[] = [
  {
    name: 'device.synchronize()',
    members: ['Device#synchronize'],
    act: 'waits for the device',
    waits: 'everything',
    withoutStream: true,
    prepare: (scene) => () => scene.device.synchronize(),
  },
  withOptions({
    name: 'device.finished()',
    members: ['Device#finished'],
    act: 'promises the device',
    options: { values: { signal: () => new AbortController().signal } },
    prepare: (scene) => (options) => scene.device.finished(options),
    answers: ({ ran, hold }) => assert.equal(ran, hold === 'nothing' ? 0 : 1, 'so often the host function had run'),
  }),
  {
    name: 'device.drainHostFunctions()',
    members: ['Device#drainHostFunctions'],
    act: 'makes',
    waits: 'everything',
    withoutStream: true,
    prepare: (scene) => () => scene.device.drainHostFunctions(),
  },
]

export const eventCalls: readonly Call[] = [...events, ...devices]
