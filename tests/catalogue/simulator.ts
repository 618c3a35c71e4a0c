/** cuda-streams/sim: work of the simulated GPU, and streams of another library. */
import { busy, destroyForeignStream, foreignStream, latch } from 'cuda-streams/sim'
import { type Call, withOptions } from './call.js'

import { STREAM_OPTIONS } from './values.js'

const onlyOffered: NonNullable<Call['lacks']> = ({ bench }) =>
  bench.name === 'sim' ? undefined : 'only the simulator offers it'

export const simCalls: readonly Call[] = [
  {
    name: 'busy(stream)',
    members: ['busy'],
    act: 'queues',
    takesRoom: 'on both drivers',
    lacks: onlyOffered,
    prepare: (scene) => () => busy(scene.stream, 1000),
  },
  {
    name: 'latch(stream)',
    members: ['latch'],
    act: 'queues',
    takesRoom: 'on both drivers',
    lacks: onlyOffered,
    // It stands until it is opened, and a graph is launched many times.
    refuses: ({ situation: { capture } }) =>
      capture?.of === 'the stream' ? ['ERR_UNSUPPORTED', ...(capture.invalidated ? ['901'] : [])] : [],
    prepare: (scene) => () => latch(scene.stream).open(),
  },
  withOptions({
    name: 'foreignStream() and destroyForeignStream()',
    members: ['foreignStream', 'destroyForeignStream'],
    act: 'makes',
    lacks: onlyOffered,
    options: { values: STREAM_OPTIONS, others: ['device'], apart: 'it makes a stream of another library' },
    prepare: (scene) => (options) => destroyForeignStream(foreignStream(scene.device, options)),
  }),
]
