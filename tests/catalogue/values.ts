/** Values that options of several calls have, and other things that the files of the catalogue share. */
import type { Graph } from 'cuda-streams'
import type { Scene } from './scene.js'

/** The reason of a signal, which a wait of the host behind the stream's wait tells. */
export class GivenUp extends Error {
  readonly code = 'ERR_GIVEN_UP'
}

/** An operand that a copy writes, and one that it reads. */
export const destination = { name: 'destination', becomes: (scene: Scene) => scene.wordRead(1) }
export const source = { name: 'source' }

export const STREAM_OPTIONS = {
  priority: () => 0,
  nonBlocking: () => true,
  context: ({ lab }: Scene) => lab.once('a green context', () => lab.device.split({ multiprocessors: [16] }))[0],
  memorySyncDomain: () => 'remote' as const,
}

export const NAMED_STREAM_OPTIONS = { ...STREAM_OPTIONS, name: () => 'named in its options' }

export const EVENT_OPTIONS = { timing: () => false, blockingSync: () => false, interprocess: () => false }

/** Of what is wrapped. */
export const OWNED = { device: ({ device }: Scene) => device, owner: () => ({}) }

export const WRAPPED_STREAM = { ...OWNED, name: () => 'named by its wrapper' }

export const ANOTHER_PROCESS = 'it needs another process: tests/processes'

const graphs = new WeakMap<Scene, Graph>()

/** A graph of the scene, of one host function. */
export function graphOf(scene: Scene): Graph {
  const known = graphs.get(scene)
  if (known !== undefined) return known
  const { allocationStream } = scene.lab
  const graph = scene.keep(
    allocationStream.capture(() => void allocationStream.launchHostFunc(() => scene.log.push('before'))),
  )
  scene.closers.set('the graph', () => graph.close())
  graphs.set(scene, graph)
  return graph
}
